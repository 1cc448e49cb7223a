"""Search for the paper's straggler settings: `python -m experiments.infer_stragglers`.

The paper names NS1 to NS3 and CS1 to CS3 and tells speedups, not parameters. Round values are
tried: for every pair of a network and a compute setting, how much sooner `mlfabric_a` in paper mode
has applied the updates that it needs to the target than `ring_allreduce` has the ones that it needs
(timing only). The updates needed are those of results/step_sizes-<workload>.json. The six settings
are then chosen together so that five cells of the paper's table, row CS1 and column NS2, come out
closest; the other four are never looked at. Every tried point goes to results/stragglers.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import os
import signal
import statistics
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from experiments.collect import totals
from experiments.execute_virtual import time_only
from experiments.files import write_json
from experiments.overrides import validate
from experiments.paths import RESULTS
from experiments.schema import RunConfig
from experiments.sections import VirtualEngineConfig
from mlfabric.emulation.namespaces import die_with_parent
from mlfabric.errors import SettingError

RING, PAPER_MODE = "ring_allreduce", "mlfabric_a"

FITTED = {
    ("cs1", "ns1"): 1.74,
    ("cs1", "ns2"): 1.23,
    ("cs1", "ns3"): 1.42,
    ("cs2", "ns2"): 2.00,
    ("cs3", "ns2"): 1.33,
}
"""Speedups in the paper's table [paper]; its other four cells are held out."""

PROBABILITIES = (0.05, 0.1, 0.2)
FACTORS = (0.025, 0.05, 0.1, 0.25, 0.5)
MAX_FACTORS = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
SEEDS = {RING: range(200, 209), PAPER_MODE: range(200, 202)}
"""The ring's time depends much on which links a seed slows, paper mode's hardly."""
TIME_LIMIT_S = 300.0
TOLD_EVERY = 200
KEPT = 20
"""How many of the best combinations are told."""


class Network(NamedTuple):
    """Each period each link keeps `factor` of its rate with `probability`."""

    probability: float
    factor: float


class Compute(NamedTuple):
    """With `probability` an iteration takes U[1, max_factor] times as long."""

    probability: float
    max_factor: float


NETWORKS = tuple(itertools.starmap(Network, itertools.product(PROBABILITIES, FACTORS)))
COMPUTES = tuple(itertools.starmap(Compute, itertools.product(PROBABILITIES, MAX_FACTORS)))


Pair = tuple[Compute, Network]
Ratios = Mapping[Pair, float | None]
Cell = tuple[str, str]


class Job(NamedTuple):
    """One run: how long a policy takes to apply so many updates."""

    workload: str
    policy: str
    updates: int
    compute: Compute
    network: Network
    seed: int


def main(arguments: Sequence[str]) -> int:
    """Try every pair, choose, print and write."""
    parser = argparse.ArgumentParser(prog="python -m experiments.infer_stragglers")
    parser.add_argument("--workload", default="resnet_digits", help="default: %(default)s")
    told = "to the target; default: what the study of step sizes found"
    parser.add_argument("--ring-updates", type=int, help=told)
    parser.add_argument("--mlfabric-updates", type=int, help=told)
    chosen = parser.parse_args(arguments)
    asked = {RING: chosen.ring_updates, PAPER_MODE: chosen.mlfabric_updates}
    try:
        needed = {p: n or updates_needed(chosen.workload, p, RESULTS) for p, n in asked.items()}
    except SettingError as error:
        print(error, file=sys.stderr)
        return 2
    times = _try_all(chosen.workload, needed)
    best = best_combinations({pair: median_ratio(seconds) for pair, seconds in times.items()})
    seeds = {policy: list(own) for policy, own in SEEDS.items()}
    report = {"updates": needed, "seeds": seeds, "points": points(times), "best": best[:KEPT]}
    write_json(report, RESULTS / "stragglers.json")
    print(json.dumps(best[:5], indent=1))
    return 0


def updates_needed(workload: str, policy: str, results: Path) -> int:
    """Median updates to the target at the policy's step scale, as the study of step sizes has it.

    Raises SettingError where it does not tell.
    """
    path = results / f"step_sizes-{workload}.json"
    if not path.exists():
        raise SettingError(f"{path}: must exist: python -m experiments.step_sizes writes it")
    scale = f"{_composed(workload, policy).step_scale:g}"
    found = json.loads(path.read_text())["updates"][policy].get(scale)
    if found is None:
        raise SettingError(f"{path}: must tell the updates of {policy} at step scale {scale}")
    return round(float(found))


def points(times: Mapping[Pair, Mapping[str, Sequence[float]]]) -> list[dict[str, Any]]:
    """Every tried pair as it is written; a run that missed its updates has null seconds."""
    return [
        {
            "compute": list(compute),
            "network": list(network),
            "ratio": median_ratio(seconds),
            "seconds": {
                policy: [s if math.isfinite(s) else None for s in own]
                for policy, own in seconds.items()
            },
        }
        for (compute, network), seconds in times.items()
    ]


def median_ratio(seconds: Mapping[str, Sequence[float]]) -> float | None:
    """The ring's median seconds over paper mode's; None where either took too long."""
    ring, ours = statistics.median(seconds[RING]), statistics.median(seconds[PAPER_MODE])
    return ring / ours if math.isfinite(ring) and math.isfinite(ours) else None


def best_combinations(ratios: Ratios) -> list[dict[str, Any]]:
    """Six settings and their objective, the sum of squared log errors of the five cells; by that.

    For every CS1 and NS2 the best others: given those two, what is best for NS1 and NS3 does not
    depend on what is best for CS2 and CS3. No setting is used twice; pairs without a ratio are
    left out.
    """
    known = {pair: ratio for pair, ratio in ratios.items() if ratio is not None}
    combinations = (_best_around(known, pair) for pair in known)
    found = [_described(known, cells) for cells in combinations if cells is not None]
    return sorted(found, key=lambda one: one["objective"])


def _best_around(ratios: Mapping[Pair, float], middle: Pair) -> dict[Cell, Pair] | None:
    """The pair of each cell that fits best when `middle` is (CS1, NS2)."""
    row = [pair for pair in ratios if pair[0] == middle[0] and pair != middle]
    column = [pair for pair in ratios if pair[1] == middle[1] and pair != middle]
    along = _best_two(ratios, row, (("cs1", "ns1"), ("cs1", "ns3")))
    across = _best_two(ratios, column, (("cs2", "ns2"), ("cs3", "ns2")))
    if along is None or across is None:
        return None
    return {("cs1", "ns2"): middle, **along, **across}


def _best_two(
    ratios: Mapping[Pair, float], pairs: Sequence[Pair], cells: tuple[Cell, Cell]
) -> dict[Cell, Pair] | None:
    """The two different pairs that come closest to two cells; None where there are no two."""
    errors = [{pair: _error(ratios[pair], cell) for pair in pairs} for cell in cells]
    best = min(
        itertools.permutations(pairs, 2),
        key=lambda two: errors[0][two[0]] + errors[1][two[1]],
        default=None,
    )
    return None if best is None else dict(zip(cells, best, strict=True))


def _described(ratios: Mapping[Pair, float], cells: Mapping[Cell, Pair]) -> dict[str, Any]:
    networks = {ns: cells["cs1", ns][1] for ns in ("ns1", "ns2", "ns3")}
    computes = {cs: cells[cs, "ns2"][0] for cs in ("cs1", "cs2", "cs3")}
    return {
        "objective": sum(_error(ratios[cells[cell]], cell) for cell in FITTED),
        **{name: network._asdict() for name, network in networks.items()},
        **{name: compute._asdict() for name, compute in computes.items()},
        "ratios": {"/".join(cell).upper(): ratios[cells[cell]] for cell in FITTED},
    }


def _error(ratio: float, cell: Cell) -> float:
    return math.log(ratio / FITTED[cell]) ** 2


def _try_all(workload: str, needed: Mapping[str, int]) -> dict[Pair, dict[str, list[float]]]:
    """Seconds of every pair, by policy, one for each of its seeds."""
    jobs = [
        Job(workload, policy, updates, compute, network, seed)
        for compute in COMPUTES
        for network in NETWORKS
        for policy, updates in needed.items()
        for seed in SEEDS[policy]
    ]
    times: dict[Pair, dict[str, list[float]]] = {}
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(
        cores, get_context("spawn"), initializer=die_with_parent, initargs=(signal.SIGKILL,)
    ) as pool:
        answers = zip(jobs, pool.map(seconds_of, jobs, chunksize=8), strict=True)
        for number, (job, seconds) in enumerate(answers, start=1):
            own = times.setdefault((job.compute, job.network), {})
            own.setdefault(job.policy, []).append(seconds)
            if number % TOLD_EVERY == 0:
                print(f"{number} of {len(jobs)} runs", flush=True)
    return times


def seconds_of(job: Job) -> float:
    """Virtual seconds until the updates are applied; infinite if the time limit comes first."""
    config = _composed(job.workload, job.policy)
    assert isinstance(config.engine, VirtualEngineConfig)
    config = dataclasses.replace(
        config,
        seed=job.seed,
        network=dataclasses.replace(config.network, **job.network._asdict()),
        compute=dataclasses.replace(config.compute, **job.compute._asdict()),
        engine=dataclasses.replace(config.engine, max_updates=job.updates),
    )
    end = totals(time_only(config))
    return float(end["elapsed_s"]) if end["applied"] >= job.updates else math.inf


@cache
def _composed(workload: str, policy: str) -> RunConfig:
    overrides = ["engine=virtual", "cluster=paper", f"workload={workload}"]
    timing = ["workload.timing_only=true", f"engine.max_seconds={TIME_LIMIT_S}"]
    (config,) = validate([*overrides, *timing, f"policy={policy}"], multirun=False)
    return config


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
