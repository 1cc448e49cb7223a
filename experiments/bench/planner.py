"""Planning time, its growth and its steadiness; results/bench/planner.json.

`make bench ARGS=planner`. One process on one core; times in seconds are medians over
instances, each the best of some repetitions.
"""

from __future__ import annotations

import dataclasses
import math
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from experiments.bench import straightforward
from experiments.bench.instances import cluster, pressed
from experiments.bench.report import claim, report
from mlfabric.planning.aggregation import paper_groups
from mlfabric.planning.batch import Batch, Plan
from mlfabric.planning.grouping import realize
from mlfabric.planning.ordering import order
from mlfabric.planning.planner import plan, warm_up

SIZES = ((10, 2), (30, 4), (100, 8), (300, 16), (1000, 32))
"""Updates and aggregators."""
AIMS_S = {30: 0.002, 300: 0.030, 1000: 0.400}
MODES = ("none", "paper", "refined", "pipelined")
SCENES = ((30, 4), (30, 30), (300, 16), (300, 300))
"""Updates and aggregators for which the modes' plans are compared."""
INSTANCES = 5
REPETITIONS = 3
PLAIN_UP_TO = 100
"""Updates up to which the straightforward planner is measured: it takes minutes beyond."""
BATCHES = 10_000
PRESSED_BATCHES = 300


def main() -> int:
    """Measure, write, print; exit status 1 where a claim does not hold."""
    warm_up()
    speed = measure_speed()
    long_run, rules = _long_run(), _ordering_rules()
    _print(speed["seconds"], speed["growth_exponent"], speed["straightforward"])
    results = {
        **speed,
        "stages": {n: _stages(n, hosts) for n, hosts in SIZES},
        "long_run": long_run,
        "ordering_rules": rules,
        "mean_completion": {f"{n}/{hosts}": _completions(n, hosts) for n, hosts in SCENES},
        "claims": [*speed["claims"], *_steady(long_run)],
    }
    return report("planner", results)


def measure_speed() -> dict[str, Any]:
    """Planning time of every mode and size, its growth, and the straightforward planner's."""
    times = {mode: {n: _time(n, hosts, mode) for n, hosts in SIZES} for mode in MODES}
    plain = {n: _compared(n, hosts) for n, hosts in SIZES if n <= PLAIN_UP_TO}
    growth = {mode: _exponent(times[mode]) for mode in MODES}
    return {
        "seconds": times,
        "growth_exponent": growth,
        "aims_s": AIMS_S,
        "straightforward": plain,
        "claims": _claims(times, growth, plain),
    }


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _best(work: Callable[[], object]) -> float:
    return min(_seconds(work) for _ in range(REPETITIONS))


def _time(n: int, aggregators: int, mode: Any) -> float:
    batches = [
        dataclasses.replace(cluster(n, aggregators, seed), aggregation=mode)
        for seed in range(INSTANCES)
    ]
    return statistics.median(_best(lambda b=batch: plan(b)) for batch in batches)  # type: ignore[misc]


def _completions(n: int, aggregators: int) -> dict[str, float]:
    """Mean completion time of each mode's plan over that of sending all straight; medians."""
    found: dict[str, list[float]] = {mode: [] for mode in MODES}
    for seed in range(INSTANCES):
        batch = cluster(n, aggregators, seed)
        for mode in MODES:
            made = plan(dataclasses.replace(batch, aggregation=mode))  # type: ignore[arg-type]
            found[mode].append(made.mean_completion_s)
    direct = found["none"]
    return {
        mode: statistics.median(a / b for a, b in zip(means, direct, strict=True))
        for mode, means in found.items()
    }


def _exponent(seconds: dict[int, float]) -> float:
    """Slope of log time over log size, from 30 updates on, by least squares."""
    points = [(math.log(n), math.log(s)) for n, s in seconds.items() if n >= 30]
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def _stages(n: int, aggregators: int) -> dict[str, float]:
    """Where the time goes in paper mode: ordering, grouping, reserving what was decided."""
    batch = cluster(n, aggregators, 0)
    kept = order(batch).kept
    (shapes,) = paper_groups(batch, kept)
    return {
        "ordering": _best(lambda: order(batch)),
        "grouping": _best(lambda: paper_groups(batch, kept)),
        "reserving": _best(lambda: realize(batch, shapes)),
    }


def _compared(n: int, aggregators: int) -> dict[str, float]:
    """Both planners on the same batches, in one run; they come to the same groups."""
    ours, theirs = [], []
    for seed in range(INSTANCES):
        batch = cluster(n, aggregators, seed)
        (shapes,) = paper_groups(batch, order(batch).kept)
        groups = [(tuple(u.id for u in shape.members), shape.via) for shape in shapes]
        found: list[Any] = []
        theirs.append(_seconds(lambda b=batch, f=found: f.append(straightforward.plan(b))))  # type: ignore[misc]
        if found[0][0] != groups:
            raise AssertionError(f"the planners differ on {n} updates, seed {seed}")
        ours.append(_best(lambda b=batch: plan(b)))  # type: ignore[misc]
    return {
        "ours_s": statistics.median(ours),
        "straightforward_s": statistics.median(theirs),
        "ratio": statistics.median(b / a for a, b in zip(ours, theirs, strict=True)),
    }


def _long_run() -> dict[str, Any]:
    """Plan 10,000 batches one after another, each on what those before it have left.

    The first batch is planned again beside each of them: the machine's own changes of pace count
    for both.
    """
    batch = cluster(8, 2, 0)
    residual = batch.residual.copy()
    slower, entries, memory = [], [], []
    for number in range(BATCHES):
        now = number * 0.5
        updates = tuple(
            u._replace(id=f"{u.id}:{number}", ready_s=now + u.ready_s, version=number * 8)
            for u in batch.updates
        )
        started = time.process_time()
        residual.forget_before(now)
        made = plan(
            dataclasses.replace(
                batch, updates=updates, residual=residual, now=now, version=number * 8 + 4
            )
        )
        seconds = time.process_time() - started
        slower.append(seconds / _seconds(lambda: plan(batch)))
        residual = made.residual
        entries.append(residual.entries)
        memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    tenth = BATCHES // 10
    return {
        "batches": BATCHES,
        "first_tenth_over_first_batch": statistics.median(slower[:tenth]),
        "last_tenth_over_first_batch": statistics.median(slower[-tenth:]),
        "most_entries_first_tenth": max(entries[:tenth]),
        "most_entries_last_tenth": max(entries[-tenth:]),
        "memory_first_tenth_kib": memory[tenth],
        "memory_last_tenth_kib": memory[-1],
    }


def _ordering_rules() -> dict[str, Any]:
    """Delay-aware against plain shortest-first, on batches whose bound is tight."""
    found: dict[str, list[Plan]] = {"shortest": [], "delay_aware": []}
    batches = [pressed(20, seed) for seed in range(PRESSED_BATCHES)]
    for rule in found:
        found[rule] = [plan(dataclasses.replace(b, ordering=rule)) for b in batches]  # type: ignore[arg-type]
    costs = {
        rule: [_cost(b, p) for b, p in zip(batches, found[rule], strict=True)] for rule in found
    }
    ratios = [a / b for a, b in zip(costs["delay_aware"], costs["shortest"], strict=True)]
    return {
        "batches": len(batches),
        "updates": len(batches[0].updates),
        "dropped": {
            rule: statistics.fmean(len(p.dropped) for p in plans) for rule, plans in found.items()
        },
        "mean_commit_s": {
            rule: statistics.fmean(p.mean_completion_s for p in plans)
            for rule, plans in found.items()
        },
        "cost_ratio": statistics.fmean(ratios),
        "better": sum(ratio < 1 - 1e-9 for ratio in ratios),
        "worse": sum(ratio > 1 + 1e-9 for ratio in ratios),
    }


def _cost(batch: Batch, made: Plan) -> float:
    """Σ commit times, a dropped update counted as sent alone after the batch."""
    clock = max((group.commit_s for group in made.groups), default=batch.now)
    finish = batch.residual.finish
    redone = [
        clock + finish(d.update.worker, batch.server, batch.ready_s(d.update), d.update.bytes)
        for d in made.dropped
    ]
    return sum(group.commit_s * len(group.members) for group in made.groups) + sum(redone)


def _claims(
    times: dict[str, dict[int, float]],
    growth: dict[str, float],
    plain: dict[int, dict[str, float]],
) -> Sequence[dict[str, Any]]:
    largest = max(plain)
    ratio = plain[largest]["ratio"]
    aims = [
        claim(
            f"paper mode, {n} updates: share of the {aim * 1e3:g} ms aimed at",
            share,
            "at most 1",
            share <= 1,
        )
        for n, aim in AIMS_S.items()
        for share in [times["paper"][n] / aim]
    ]
    return [
        *aims,
        claim(
            "growth exponent of paper mode, 30 to 1,000 updates",
            growth["paper"],
            "at most 2",
            growth["paper"] <= 2,
        ),
        claim(
            f"straightforward planner's time over ours, {largest} updates",
            ratio,
            "at least 20",
            ratio >= 20,
        ),
    ]


def _steady(long_run: dict[str, Any]) -> Sequence[dict[str, Any]]:
    slower = long_run["last_tenth_over_first_batch"] / long_run["first_tenth_over_first_batch"]
    fatter = long_run["memory_last_tenth_kib"] / long_run["memory_first_tenth_kib"]
    longer = long_run["most_entries_last_tenth"] / long_run["most_entries_first_tenth"]
    return [
        claim(
            f"time of the last 1,000 of {BATCHES:,} batches over the first",
            slower,
            "at most 1.2",
            slower <= 1.2,
        ),
        claim(
            f"memory after {BATCHES:,} batches over that after the first tenth",
            fatter,
            "at most 1.05",
            fatter <= 1.05,
        ),
        claim(
            f"profile entries in the last 1,000 of {BATCHES:,} batches over the first",
            longer,
            "at most 1.2",
            longer <= 1.2,
        ),
    ]


def _print(
    times: dict[str, dict[int, float]],
    growth: dict[str, float],
    plain: dict[int, dict[str, float]],
) -> None:
    print(f"{'planning time (ms)':18}" + "".join(f"{n:>9}" for n, _ in SIZES) + "   exponent")
    for mode, seconds in times.items():
        row = "".join(f"{s * 1e3:9.2f}" for s in seconds.values())
        print(f"{mode:18}{row}{growth[mode]:11.2f}")
    row = "".join(f"{p['straightforward_s'] * 1e3:9.1f}" for p in plain.values())
    print(f"{'straightforward':18}{row}")
