"""Whole runs on the virtual clock, on counts that can be checked."""

from __future__ import annotations

import numpy as np
import pytest

from mlfabric import policies
from mlfabric.emulation.spec import RateEvent
from mlfabric.engines.roles.worker import Worker
from mlfabric.engines.virtual import Wire, run
from mlfabric.errors import NothingMoves
from mlfabric.payload import even_cuts
from mlfabric.policies.base import Replication
from mlfabric.topology import Link, Topology
from tests.support.virtual import of, timed, virtual_plan

SIZE, ENTRIES = 5_000, 400
VARIANTS = {name: (name, {}) for name in policies.names() if policies.place(name) != "library"}
SCHEDULED = [name for name in VARIANTS if policies.place(name) == "scheduler"]
VARIANTS |= {f"{name} pipelined": (name, {"aggregation": "pipelined"}) for name in SCHEDULED}
BOUNDED = [
    variant
    for variant, (name, _) in VARIANTS.items()
    if "delay_bound" in policies.module(name).Options.__dataclass_fields__
]
COLLECTIVE = [variant for variant, (name, _) in VARIANTS.items() if policies.is_collective(name)]
STRAGGLERS = (RateEvent(0.7, "w1", 0.1), RateEvent(1.4, "w1", 1.0), RateEvent(1.4, "w2", 0.25))


def untold(variant, workers):
    """Workers other than the first that may not have the last sum yet, message by message."""
    in_messages = variant in COLLECTIVE and not hasattr(policies.module(variant), "rounds")
    return workers - 1 if in_messages else 0


def missing(rows):
    """Updates that the last model holds and no row tells of, as their workers were cut off."""
    told = [row for row in of(rows, "update") if row["status"] == "applied"]
    version = of(rows, "totals")[0]["version"]
    return version - sum(row["version_applied"] < version for row in told)


def held(rows, version):
    """How many updates a model of this version holds: a dropped delta is in the next one."""
    iterations = {}
    for row in of(rows, "update"):
        if row["status"] == "applied" and row["version_applied"] < version:
            before = iterations.get(row["worker"], 0)
            iterations[row["worker"]] = max(before, row["iteration"] + 1)
    return sum(iterations.values())


class Counter:
    """Adds 1 to some entries an update."""

    def __init__(self, worker):
        self._rng = np.random.default_rng(worker)
        self.loaded = False

    def warm_up(self):
        pass

    def load(self):
        self.loaded = True

    def compute(self, view):
        assert self.loaded
        assert view.min() >= 0, "a view went negative"
        indices = np.sort(self._rng.choice(SIZE, ENTRIES, replace=False)).astype(np.int32)
        return indices, np.ones(ENTRIES, np.int32)


def count_run(variant, workers=5, delay_bound=None, **changes):
    """Rows of a run that counts, and its snapshots (model, version, elapsed_s)."""
    policy, options = VARIANTS[variant]
    plan = virtual_plan(
        policy,
        workers,
        options={**options, "delay_bound": delay_bound},
        conserved=True,
        rate_events=STRAGGLERS[:2] if workers == 1 else STRAGGLERS,
        wire=Wire(byte_scale=100.0),
        **changes,
    )
    found = []
    rows = run(
        plan,
        np.zeros(SIZE, np.int32),
        Counter,
        lambda model, version, elapsed: found.append((model.copy(), version, elapsed)),
        lambda *seen: None,
    )
    return rows, found


@pytest.mark.parametrize(
    ("variant", "bound"),
    [(variant, None) for variant in VARIANTS] + [(variant, 4) for variant in BOUNDED],
)
@pytest.mark.parametrize("workers", [1, 2, 7])
def test_every_model_holds_exactly_the_updates_applied(variant, bound, workers):
    if workers == 1 and variant in COLLECTIVE:
        pytest.skip("a sum needs two")
    rows, found = count_run(variant, workers, delay_bound=bound)
    assert len(found) >= 3
    updates = of(rows, "update")
    applied = [row for row in updates if row["status"] == "applied"]
    (totals,) = of(rows, "totals")
    assert totals["applied"] == found[-1][1] > 0
    assert 0 <= missing(rows) <= untold(variant, workers)
    assert abs(len(applied) - totals["applied"]) <= untold(variant, workers)
    assert totals["dropped"] == len(updates) - len(applied)
    if bound is not None:
        assert max(row["delay"] for row in applied) <= bound
    assert len({row["id"] for row in updates}) == len(updates)
    for model, version, _ in found:
        if version == totals["version"] and missing(rows):
            continue
        assert model.min() >= 0
        assert model.sum() == ENTRIES * held(rows, version)


SERVED = [variant for variant in VARIANTS if variant not in COLLECTIVE]


class Everywhere:
    """Adds 1 to every tenth entry."""

    def __init__(self, worker):
        self._indices = np.arange(0, SIZE, 10, dtype=np.int32)

    def warm_up(self):
        pass

    def load(self):
        pass

    def compute(self, view):
        assert view.min() >= 0, "a view went negative"
        return self._indices, np.ones(len(self._indices), np.int32)


@pytest.mark.parametrize("variant", SERVED)
@pytest.mark.parametrize(("servers", "colocated"), [(2, False), (3, True), (5, True), (1, True)])
def test_every_server_s_share_holds_exactly_what_was_applied_to_it(variant, servers, colocated):
    policy, options = VARIANTS[variant]
    plan = virtual_plan(
        policy,
        5,
        servers=servers,
        colocated=colocated,
        options={**options, "delay_bound": 4 if variant in BOUNDED else None},
        conserved=True,
        rate_events=STRAGGLERS,
        wire=Wire(byte_scale=100.0),
    )
    found = []
    rows = run(
        plan,
        np.zeros(SIZE, np.int32),
        Everywhere,
        lambda model, version, elapsed: found.append((model.copy(), version)),
        lambda *seen: None,
    )
    totals = sorted(of(rows, "totals"), key=lambda row: row["shard"])
    assert [row["shard"] for row in totals] == list(range(servers))
    assert len(found) >= 3
    assert all(model.min() >= 0 for model, _ in found)
    model, version = found[-1]
    assert version == sum(row["version"] for row in totals) // servers > 10
    for (begin, end), total in zip(even_cuts(0, SIZE, servers), totals, strict=True):
        own = [row for row in rows if row.get("shard") == total["shard"]]
        touched = np.arange(begin, end) % 10 == 0
        assert set(model[begin:end][touched]) == {held(own, total["version"])}
        assert not model[begin:end][~touched].any()
        delays = [r["delay"] for r in of(own, "update") if r["status"] == "applied"]
        assert max(delays) <= (4 if variant in BOUNDED else 1000)
    moved = [row for row in of(rows, "transfer") if row["kind"] == "model"]
    for worker in range(1, 6):
        served = plan.servers.index(f"w{worker}") if f"w{worker}" in plan.servers else None
        beside = [row for row in moved if row["src"] == row["next_hop"] == f"w{worker}"]
        assert {row["shard"] for row in beside} <= {served}
        assert bool(beside) == (served is not None)


REPLICATED = [(variant, "chain") for variant in SERVED]
REPLICATED += [(variant, "bounded") for variant in SERVED if VARIANTS[variant][0] in SCHEDULED]


@pytest.mark.parametrize(("variant", "kind"), REPLICATED)
@pytest.mark.parametrize("workers", [1, 7])
def test_a_replica_is_never_further_behind_than_it_may_be(variant, kind, workers):
    """Each update adds ENTRIES: the distance counts what the replica lacks."""
    bound = 6.0 * ENTRIES if kind == "bounded" else None
    replication = Replication("replica", kind, bound)
    rows, found = count_run(variant, workers, replication=replication, snapshot_interval_s=0.01)
    transfers = of(rows, "transfer")
    copies = [row for row in transfers if row["kind"] == ("copy" if bound else "chain")]
    assert all(row["dst"] == "replica" for row in copies)
    assert all((row["src"] == "server") == (kind == "chain") for row in copies)
    version = of(rows, "totals")[0]["version"]
    distances = [row["distance"] for row in of(rows, "distance")]
    assert len(distances) >= 3
    assert len(distances) == len(found)
    if bound:
        promises = of(rows, "promise")
        assert promises[-1]["version"] == version
        together = max(len(row["updates"]) for row in copies)  # what has come in one sum
        if "mlfabric_s" in variant.split():
            together = workers
        assert max(row["promised"] for row in promises) <= max(bound, together * ENTRIES)
        assert max(distances) <= max(bound, together * ENTRIES)
    else:
        assert not any(row["kind"] == "copy" for row in transfers)
        assert all(distance % ENTRIES == 0 for distance in distances)
        assert max(distances) <= workers * ENTRIES
    followed = sum(len(row["updates"]) for row in copies if row["complete"])
    assert version - max(workers, 6) <= followed <= version + workers


class OneEntry(Everywhere):
    """Adds 1 to the first entry."""

    def compute(self, view):
        return np.zeros(1, np.int32), np.ones(1, np.int32)


@pytest.mark.parametrize("variant", SERVED)
def test_updates_that_do_not_touch_a_share_are_applied_to_it(variant):
    policy, options = VARIANTS[variant]
    plan = virtual_plan(
        policy, 5, servers=3, options=options, conserved=True, wire=Wire(byte_scale=100.0)
    )
    models = []
    keep = lambda model, *seen: models.append(model.copy())  # noqa: E731
    rows = run(plan, np.zeros(SIZE, np.int32), OneEntry, keep, lambda *seen: None)
    first, *others = sorted(of(rows, "totals"), key=lambda row: row["shard"])
    own = [row for row in rows if row.get("shard") == 0]
    assert models[-1][0] == models[-1].sum() == held(own, first["version"])
    assert all(row["applied"] > 10 for row in (first, *others))


@pytest.mark.parametrize("policy", ["async_ps", "sync_ps", "mlfabric_a"])
def test_servers_that_share_the_load_are_faster(policy):
    """One server's link is what all wait for; with four, each carries a quarter."""
    rates = [
        of(timed(virtual_plan(policy, 8, servers=servers)), "totals")[0]["applied"]
        for servers in (1, 4)
    ]
    assert rates[1] > 1.3 * rates[0]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_plan_gives_the_same_rows(variant):
    first, models = count_run(variant)
    second, again = count_run(variant)
    assert repr(first) == repr(second)
    for (one, *_), (other, *_) in zip(models, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("max_updates", [1, 9, 16])
def test_a_run_of_so_many_updates_ends_with_the_model_that_holds_them(variant, max_updates):
    rows, found = count_run(variant, workers=4, max_updates=max_updates, max_seconds=60.0)
    (totals,) = of(rows, "totals")
    assert totals["applied"] == totals["version"] == found[-1][1] >= max_updates
    assert 0 <= missing(rows) <= untold(variant, 4)
    if not missing(rows):
        assert found[-1][0].sum() == ENTRIES * held(rows, totals["version"])


TRACES = {
    "equal links": (),
    "a slow link": (RateEvent(0.0, "w2", 0.2),),
    "changes within sums": (
        RateEvent(0.3, "w1", 0.1),
        RateEvent(0.9, "w1", 1.0),
        RateEvent(1.1, "w2", 0.25),
    ),
}


class Dense:
    """Adds a little to every entry of a vector of 100 kB."""

    def __init__(self, worker):
        self._worker = worker

    def warm_up(self):
        pass

    def load(self):
        pass

    def compute(self, view):
        return None, np.full_like(view, 0.25 * (self._worker + 1))


def dense_run(plan):
    """Rows of a run on 25,000 floats, and its last model."""
    models = []
    start = np.zeros(25_000, np.float32)
    keep = lambda model, version, elapsed: models.append(model.copy())  # noqa: E731
    return run(plan, start, Dense, keep, lambda *seen: None), models[-1]


@pytest.mark.parametrize("workers", [2, 5, 8])
@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("chunk_bytes", [2_000, 100_000])
def test_a_ring_as_one_flow_agrees_with_all_its_messages(workers, trace, chunk_bytes):
    (flow, model), (messages, other) = (
        dense_run(
            virtual_plan(
                "ring_allreduce",
                workers,
                wire=Wire(),
                collective=collective,
                rate_events=TRACES[trace],
                chunk_bytes=chunk_bytes,
                max_updates=workers * 8,
                max_seconds=60.0,
            )
        )
        for collective in ("flow", "messages")
    )
    (ended,), (long_way,) = of(flow, "totals"), of(messages, "totals")
    assert ended["elapsed_s"] == pytest.approx(long_way["elapsed_s"], rel=1e-3)
    np.testing.assert_array_equal(model, other)


def test_a_sparse_ring_as_one_flow_moves_what_its_messages_move():
    rows = {
        collective: count_run("ring_allreduce", collective=collective)[0]
        for collective in ("flow", "messages")
    }
    moved = {
        collective: sum(row["bytes"] for row in of(found, "transfer") if row["complete"])
        / of(found, "totals")[0]["applied"]
        for collective, found in rows.items()
    }
    assert moved["flow"] == pytest.approx(moved["messages"], rel=0.1)


def test_one_worker_of_a_parameter_server_worked_out_by_hand():
    """Compute 0.1, start 0.002, push 0.1, two links of 0.0001, told 0.0012, ask 0.0012, pull."""
    plan = virtual_plan("async_ps", 1, computation_s=lambda worker, i: 0.1, max_seconds=10.0)
    ends = [row["ended_s"] for row in of(timed(plan), "transfer") if row["kind"] == "model"]
    cycle_s = 0.1 + 2 * (0.002 + 0.1 + 0.0002) + 2 * 0.0012
    np.testing.assert_allclose(ends[:5], cycle_s * np.arange(1, 6), rtol=1e-9)


def test_an_uplink_that_all_share_sets_the_pace():
    """Six pushes of 0.1 MB, at once but for 40 ms, over 0.2 MB/s."""
    topology = Topology({f"w{number}": "r1" for number in range(1, 7)})
    plan = virtual_plan("async_ps", 6, topology=topology, uplink_bytes_per_s=2e5, max_seconds=4.0)
    ends = [row["ended_s"] for row in of(timed(plan), "transfer") if row["kind"] == "update"]
    assert max(ends[:6]) == pytest.approx(0.102 + 3.0, abs=0.01)


def test_the_trace_is_lived_through_and_the_oracle_told():
    slow = (RateEvent(0.0, "w1", 0.1), RateEvent(2.5, "w1", 1.0))
    plan = virtual_plan("mlfabric_a", 1, rate_events=slow, options={"bandwidth": "oracle"})
    pushes = [row for row in of(timed(plan), "transfer") if row["kind"] == "update"]
    before = [row["ended_s"] - row["started_s"] for row in pushes if row["ended_s"] < 2.5]
    after = [row["ended_s"] - row["started_s"] for row in pushes if row["started_s"] > 2.5]
    assert min(before) > 1.0
    assert max(after) < 0.2


def test_a_stream_that_comes_before_its_announcement_is_taken_all_the_same():
    """Tiny transfers arrive sooner than the control message that tells of them."""
    plan = virtual_plan("async_ps", 3, startup_s=0.0, message_s=0.05, model_bytes=1_000)
    assert of(timed(plan), "totals")[0]["applied"] > 40


def test_a_run_in_which_nothing_is_left_to_happen_says_who_waits(monkeypatch):
    monkeypatch.setattr(Worker, "_resolved", lambda self, src, body: None)
    with pytest.raises(NothingMoves, match=r"w1 waits for update w1:0 to be applied or dropped"):
        timed(virtual_plan("async_ps", 2))


def test_snapshots_lie_on_a_grid_and_show_the_model_of_their_time():
    _, found = count_run("ring_allreduce")
    times = [elapsed for _, _, elapsed in found[1:-1]]
    assert [round(time / 0.5, 9) % 1 for time in times] == [0] * len(times)
    versions = [version for _, version, _ in found[:-1]]
    assert versions == sorted(set(versions))


def test_a_run_ends_at_its_updates_or_at_a_snapshot():
    plan = virtual_plan("async_ps", 4, max_updates=17)
    assert of(timed(plan), "totals")[0]["applied"] == 17
    seen = []
    rows = run(
        virtual_plan("async_ps", 4),
        np.zeros(1, np.float32),
        Counter,
        lambda model, version, elapsed: seen.append(elapsed) or len(seen) == 4,
        lambda *seen: None,
    )
    assert of(rows, "totals")[0]["elapsed_s"] == seen[3]


def test_probes_cross_links_that_were_slow():
    slow = (RateEvent(0.0, "w1", 0.1), RateEvent(1.0, "w1", 1.0))
    for probes in (False, True):
        options = {"probes": probes, "aggregation": "none"}
        rows = timed(virtual_plan("mlfabric_a", 6, rate_events=slow, options=options))
        found = [row for row in of(rows, "transfer") if row["kind"] == "probe"]
        assert bool(found) == probes
        assert all(row["bytes"] == 30_000 for row in found if row["complete"])


def test_reserved_rates_serve_what_started_first():
    """Two transfers on one link: fairly shared both are slow, in order the first is not."""
    plans = [
        virtual_plan("mlfabric_a", 8, reserved_rates=reserved, options={"aggregation": "none"})
        for reserved in (False, True)
    ]
    times = []
    for plan in plans:
        pushes = [r for r in of(timed(plan), "transfer") if r["kind"] == "update" and r["complete"]]
        times.append(np.median([row["ended_s"] - row["started_s"] for row in pushes]))
    assert times[1] < times[0]


def test_no_link_carries_more_than_it_can():
    for variant in VARIANTS:
        policy, options = VARIANTS[variant]
        plan = virtual_plan(policy, 8, options=options)
        rows = timed(plan)
        into = {}
        for row in of(rows, "transfer"):
            into[row["next_hop"]] = into.get(row["next_hop"], 0) + row["bytes"]
        for host, moved in into.items():
            assert moved <= 5.0 * plan.link_bytes_per_s[Link(host, "ingress")] * (1 + 1e-9)


def test_unequal_shares_break_up_convoys_and_give_the_same_rows_again():
    """Equal workers at a busy server: they push together, then pull together, if all is fair."""
    fair, unequal, again = (
        timed(virtual_plan("async_ps", 8, share_spread=spread, max_seconds=20.0))
        for spread in (0.0, 0.4, 0.4)
    )
    assert repr(unequal) == repr(again)
    assert of(unequal, "totals")[0]["applied"] > 1.2 * of(fair, "totals")[0]["applied"]
    pushed = sum(row["bytes"] for row in of(unequal, "transfer") if row["next_hop"] == "server")
    assert pushed <= 20.0 * 1e6 * (1 + 1e-9)
