"""Coordinators of parameter servers, event by event."""

from __future__ import annotations

import pytest

from mlfabric import policies
from mlfabric.actions import CommitGroup, DistributeModel, DropUpdate
from mlfabric.errors import SettingError
from mlfabric.events import ModelRequested, TransferDone, Update, UpdateReady, WorkerLeft
from mlfabric.policies.base import PolicyContext
from tests.support.options import OPTIONS

WORKERS = ("w1", "w2", "w3")


def coordinator(policy, **options):
    context = PolicyContext("server", WORKERS, {}, 100, 10, 1.0, 0, OPTIONS | options)
    return policies.module(policy).build(context)


def pushed(c, worker, version, number=0):
    """Actions when an update has been announced and has come."""
    name = f"{worker}:{number}"
    assert c.handle(UpdateReady(Update(name, worker, 10, version, 0.0)), 0.0) == []
    return c.handle(TransferDone(name, 10, None), 1.0)


def receivers(actions):
    return [dst for a in actions if isinstance(a, DistributeModel) for _, _, dst in a.edges]


def test_async_ps_applies_what_comes_and_answers_at_once():
    c = coordinator("async_ps")
    assert pushed(c, "w1", 0) == [CommitGroup(("w1:0",), ("w1:0",), ("w1",), (0,), 0, (1.0,))]
    (late,) = pushed(c, "w2", 0)
    assert (late.delays, late.version, c.version) == ((1,), 1, 2)
    assert receivers(c.handle(ModelRequested("w1", 0), 2.0)) == ["w1"]


@pytest.mark.parametrize(
    ("rule", "scales"), [("inverse_delay", [1.0, 1.0, 0.5]), ("adadelay", [1.0, 1 / 3, 1 / 3.83])]
)
def test_steps_shrink_with_the_delay(rule, scales):
    c = coordinator("async_ps", step_rule=rule, adadelay_c=2**0.5)
    found = [pushed(c, worker, 0)[0].scales[0] for worker in WORKERS]
    assert found == pytest.approx(scales, rel=1e-3)


def test_async_bounded_drops_what_came_too_late():
    c = coordinator("async_bounded", delay_bound=1)
    assert isinstance(pushed(c, "w1", 0)[0], CommitGroup)
    assert isinstance(pushed(c, "w2", 0)[0], CommitGroup)
    assert pushed(c, "w3", 0) == [DropUpdate("w3:0", "w3", 2)]
    assert c.version == 2


def test_sync_ps_waits_for_all_and_applies_one_sum():
    c = coordinator("sync_ps")
    assert pushed(c, "w1", 0) == []
    assert c.handle(ModelRequested("w1", 0), 1.0) == []
    assert pushed(c, "w3", 0) == []
    commit, model = pushed(c, "w2", 0)
    assert commit.transfers == ("w1:0", "w3:0", "w2:0")
    assert (commit.delays, commit.version, c.version) == ((0, 0, 0), 0, 3)
    assert receivers([model]) == ["w1"]
    assert receivers(c.handle(ModelRequested("w2", 0), 2.0)) == ["w2"]


def test_sync_backup_goes_on_without_the_slowest_whose_update_is_dropped():
    c = coordinator("sync_backup", backups=1)
    assert pushed(c, "w1", 0) == []
    (commit,) = pushed(c, "w2", 0)
    assert commit.workers == ("w1", "w2")
    assert pushed(c, "w3", 0) == [DropUpdate("w3:0", "w3", 2)]
    assert receivers(c.handle(ModelRequested("w3", 0), 2.0)) == ["w3"]
    assert pushed(c, "w3", 2, 1) == []
    assert pushed(c, "w1", 2, 1)[0].workers == ("w3", "w1")


def test_ssp_holds_a_worker_that_is_too_far_ahead():
    c = coordinator("ssp", staleness=1)
    assert receivers(c.handle(ModelRequested("w1", 0), 0.0)) == ["w1"]
    pushed(c, "w1", 0)
    assert receivers(c.handle(ModelRequested("w1", 0), 1.0)) == ["w1"]
    pushed(c, "w1", 1, 1)
    assert c.handle(ModelRequested("w1", 1), 2.0) == []  # two clocks ahead of w2 and w3
    pushed(c, "w2", 0)
    actions = pushed(c, "w3", 0)
    assert receivers(actions) == ["w1"]
    assert c.version == 4


def test_who_has_left_holds_nobody_back():
    c = coordinator("ssp", staleness=0)
    pushed(c, "w1", 0)
    pushed(c, "w2", 0)
    assert c.handle(ModelRequested("w1", 0), 1.0) == []
    assert receivers(c.handle(WorkerLeft("w3"), 2.0)) == ["w1"]
    assert receivers(c.handle(ModelRequested("w2", 0), 3.0)) == ["w2"]


def test_an_unknown_policy_is_refused_with_the_known_ones():
    with pytest.raises(SettingError, match=r"policy=spdy: must be one of async_bounded, .*tree"):
        policies.module("spdy")
