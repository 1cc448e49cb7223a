"""The planner's benchmark: what it measures, on sizes that take no time."""

from __future__ import annotations

import pytest

from experiments.bench import planner, straightforward
from experiments.bench.instances import cluster, pressed
from mlfabric.planning.planner import plan


def test_time_that_grows_with_the_square_has_exponent_two():
    seconds = {10: 99.0, 30: 9.0, 300: 900.0}
    assert planner._exponent(seconds) == pytest.approx(2.0)  # from 30 updates on


def test_both_planners_come_to_the_same_groups(monkeypatch):
    measured = planner._compared(10, 2)
    assert measured["ratio"] > 1
    monkeypatch.setattr(straightforward, "plan", lambda batch: ([], [], 0.0))
    with pytest.raises(AssertionError, match="the planners differ on 10 updates, seed 0"):
        planner._compared(10, 2)


def test_profiles_stay_short_however_many_batches_are_planned(monkeypatch):
    monkeypatch.setattr(planner, "BATCHES", 400)
    long_run = planner._long_run()
    assert long_run["most_entries_last_tenth"] <= long_run["most_entries_first_tenth"]


def test_a_dropped_update_costs_as_much_as_one_sent_after_the_batch():
    batch = pressed(20, 0)
    made = plan(batch)
    assert made.dropped
    clock = made.groups[-1].commit_s
    alone = [
        batch.residual.finish(d.update.worker, "s", d.update.ready_s, d.update.bytes)
        for d in made.dropped
    ]
    expected = sum(g.commit_s for g in made.groups) + sum(clock + end for end in alone)
    assert planner._cost(batch, made) == pytest.approx(expected)


def test_instances_are_the_same_for_the_same_seed():
    first, second = cluster(30, 4, 1), cluster(30, 4, 1)
    assert first.updates == second.updates
    assert first.residual.profiles() == second.residual.profiles()
    assert first.updates != cluster(30, 4, 2).updates
