"""Hosts die while a run goes on: sums stay right, and counts are conserved."""

from __future__ import annotations

import numpy as np
import pytest

from mlfabric.emulation.spec import RateEvent
from mlfabric.engines.plan import Fault
from mlfabric.engines.virtual import Wire, run
from mlfabric.errors import ModelLost
from mlfabric.policies.base import Replication
from tests.support.virtual import of, virtual_plan
from tests.virtual.test_runs import (
    SCHEDULED,
    SERVED,
    SIZE,
    STRAGGLERS,
    VARIANTS,
    held,
)

WORKERS = 6
ENTRIES = SIZE


class Everything:
    """Adds 1 to every entry: an update takes a tenth of a second, as long as it computes."""

    def __init__(self, worker):
        self._ones = np.ones(SIZE, np.int32)

    def warm_up(self):
        pass

    def load(self):
        pass

    def compute(self, view):
        assert view.min() >= 0, "a view went negative"
        return None, self._ones.copy()


SUMMED = [v for v in SERVED if VARIANTS[v][0] in SCHEDULED]
KINDS = ("chain", "bounded")


def faulty_run(variant, *faults, kind=None, bound=6.0, seconds=6.0, **changes):
    """Rows of a run that counts while faults come, and its snapshots."""
    policy, options = VARIANTS[variant]
    replication = None
    if kind is not None:
        replication = Replication("replica", kind, bound * ENTRIES if kind == "bounded" else None)
    plan = virtual_plan(
        policy,
        WORKERS,
        options={**options, "delay_bound": 20 if "delay_bound" in options else None},
        conserved=True,
        rate_events=changes.pop("rate_events", STRAGGLERS),
        wire=Wire(byte_scale=changes.pop("byte_scale", 5.0)),
        replication=replication,
        faults=faults,
        max_seconds=seconds,
        snapshot_interval_s=0.1,
        **changes,
    )
    found = []
    rows = run(
        plan,
        np.zeros(SIZE, np.int32),
        Everything,
        lambda model, version, elapsed: found.append((model.copy(), version, elapsed)),
        lambda *seen: None,
    )
    return rows, found


def check_counts(rows, found, lost=0):
    """Every model holds just what was applied; each update has one fate."""
    updates = of(rows, "update")
    assert len({row["id"] for row in updates}) == len(updates)
    assert sum(len(row["updates"]) for row in of(rows, "lost")) == lost
    for model, version, elapsed in found:
        assert model.min() >= 0
        assert model.sum() == ENTRIES * held(rows, version), (version, elapsed)


def goes_on(rows, after_s, gone=(), spared=0):
    """Applied updates of every worker that is alive, after this time."""
    late = [r for r in of(rows, "update") if r["resolved_s"] > after_s and r["status"] == "applied"]
    alive = set(range(WORKERS)) - set(gone)
    applied = {row["worker"] for row in late}
    assert applied <= alive
    assert len(applied) >= len(alive) - spared


@pytest.mark.parametrize("variant", SERVED)
def test_a_run_goes_on_without_a_worker(variant):
    rows, found = faulty_run(variant, Fault("kill", 1.5, "w3"))
    (loss,) = of(rows, "loss")
    assert (loss["host"], loss["elapsed_s"]) == ("w3", pytest.approx(1.6, abs=0.01))
    assert len(of(rows, "recovery")) == 1
    goes_on(rows, 3.5, gone=[2], spared=variant == "sync_backup")
    check_counts(rows, found)


@pytest.mark.parametrize("variant", SUMMED)
@pytest.mark.parametrize("kind", KINDS)
def test_the_replica_takes_over_from_a_server_that_dies(variant, kind):
    rows, found = faulty_run(variant, Fault("kill", 2.0, "server"), kind=kind)
    (recovery,) = of(rows, "recovery")
    assert recovery["elapsed_s"] - 2.0 < 3.0
    goes_on(rows, 4.0)
    check_counts(rows, found)
    late = [row for row in of(rows, "transfer") if row["started_s"] > 2.2]
    assert not any("server" in (row["src"], row["next_hop"]) for row in late)


@pytest.mark.parametrize("variant", SUMMED)
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_goes_on_without_its_replica(variant, kind):
    rows, found = faulty_run(variant, Fault("kill", 2.0, "replica"), kind=kind)
    goes_on(rows, 3.5)
    check_counts(rows, found)
    late = [row for row in of(rows, "transfer") if row["started_s"] > 2.2]
    assert not any("replica" in (row["src"], row["next_hop"]) for row in late)


@pytest.mark.parametrize("variant", [v for v in SUMMED if "none" not in v])
@pytest.mark.parametrize("kind", [None, *KINDS])
def test_a_sum_whose_host_dies_is_dropped_as_a_whole(variant, kind):
    rows, found = faulty_run(variant, Fault("kill", 1.2, None), kind=kind, seconds=10.0)
    (fault,) = of(rows, "fault")
    (loss,) = of(rows, "loss")
    assert loss["host"] == fault["host"]
    goes_on(rows, 5.0, gone=[int(fault["host"][1:]) - 1])
    check_counts(rows, found)
    if kind is not None:
        distances = of(rows, "distance")
        assert distances[-1]["distance"] <= (6 if kind == "bounded" else WORKERS) * ENTRIES


@pytest.mark.parametrize("variant", [v for v in SUMMED if "none" not in v])
@pytest.mark.parametrize("kind", ["kill", "partition"])
def test_of_two_faults_at_one_host_the_later_does_nothing(variant, kind):
    of_a_sum = Fault("kill", 1.2, None)
    (host,) = {row["host"] for row in of(faulty_run(variant, of_a_sum)[0], "fault")}
    later = Fault(kind, 3.0, host, 0.5)
    rows, found = faulty_run(variant, of_a_sum, later, seconds=10.0)
    assert [row["host"] for row in of(rows, "fault")] == [host]
    assert [row["host"] for row in of(rows, "loss")] == [host]
    goes_on(rows, 5.0, gone=[int(host[1:]) - 1])
    check_counts(rows, found)


@pytest.mark.parametrize("variant", [v for v in SUMMED if "none" not in v])
def test_two_faults_that_wait_for_a_sum_find_two_hosts(variant):
    due = [1.2, 1.21]
    rows, found = faulty_run(variant, *(Fault("kill", at_s, None) for at_s in due), seconds=12.0)
    faults = of(rows, "fault")
    assert [fault["due_s"] for fault in faults] == due
    assert len({fault["host"] for fault in faults}) == 2
    goes_on(rows, 9.0, gone=[int(fault["host"][1:]) - 1 for fault in faults])
    check_counts(rows, found)


@pytest.mark.parametrize("variant", [v for v in SUMMED if VARIANTS[v][0] != "mlfabric_s"])
def test_a_host_is_made_to_sum_where_none_does(variant):
    rows, found = faulty_run(variant, Fault("kill", 1.0, None), byte_scale=0.01, seconds=12.0)
    (fault,) = of(rows, "fault")
    assert 6.0 <= fault["at_s"] < 8.0
    goes_on(rows, 9.0, gone=[int(fault["host"][1:]) - 1])
    check_counts(rows, found)


@pytest.mark.parametrize("variant", SERVED[:3])
def test_without_a_replica_the_loss_of_the_server_ends_the_run(variant):
    if VARIANTS[variant][0] not in SCHEDULED:
        pytest.skip("its coordinator is gone with it")
    with pytest.raises(ModelLost, match="server is lost, and no replica has its model"):
        faulty_run(variant, Fault("kill", 2.0, "server"))


@pytest.mark.parametrize("variant", SUMMED)
@pytest.mark.parametrize("kind", [None, "bounded"])
def test_a_link_that_is_down_for_a_while_holds_up_its_host_alone(variant, kind):
    fault = Fault("partition", 1.5, "w2", 1.0)
    down = [*STRAGGLERS, RateEvent(1.5, "w2", 1e-6), RateEvent(2.5, "w2", 1.0)]
    rows, found = faulty_run(
        variant, fault, kind=kind, lost_after_s=5.0, rate_events=tuple(down), seconds=8.0
    )
    assert not of(rows, "loss")
    goes_on(rows, 4.0)
    check_counts(rows, found)
