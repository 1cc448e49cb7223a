"""Randomised faults on the virtual clock; the campaign itself, and that it can find something."""

from __future__ import annotations

import json

import numpy as np
import pytest

from experiments.faults.__main__ import main
from experiments.faults.counting import Seen, carried_out, carry_out
from experiments.faults.invariants import complaint, of
from experiments.faults.schedules import draw


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_invariants_hold_whatever_fails(first):
    for seed in range(first, first + 10):
        schedule = draw(seed)
        rows, seen = carry_out(schedule)
        assert complaint(schedule, rows, seen) is None, schedule.label
        assert of(rows, "fault"), schedule.label


def test_the_same_seed_gives_the_same_faults_and_the_same_rows():
    assert draw(7) == draw(7)
    assert carry_out(draw(7))[0] == carry_out(draw(7))[0]


@pytest.mark.parametrize("seed", range(8))
def test_an_interrupted_run_with_faults_is_as_one_that_was_not(seed):
    whole: Seen = []
    rows = carried_out(draw(seed), None, whole)
    again, seen = carry_out(draw(seed))
    assert again == rows
    assert [shown[1:] for shown in seen] == [shown[1:] for shown in whole]
    for (model, _, _), (wanted, _, _) in zip(seen, whole, strict=True):
        np.testing.assert_array_equal(model, wanted)


def test_a_broken_model_is_told():
    schedule = draw(3)
    rows, seen = carry_out(schedule)
    model, version, elapsed_s = seen[-1]
    half = model.copy()
    half[0] += 1
    told = complaint(schedule, rows, [*seen, (half, version, elapsed_s)])
    assert told is not None
    assert told.startswith("sums_are_whole")
    told = complaint(schedule, rows, [*seen, (model + 1, version, elapsed_s)])
    assert told is not None
    assert told.startswith("counts_are_conserved")
    twice = next(row for row in rows if row["row"] == "update")
    told = complaint(schedule, [*rows, twice], seen)
    assert told is not None
    assert told.startswith("one_fate")


def test_the_campaign_writes_what_it_came_to(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("experiments.bench.report.RESULTS", tmp_path)
    assert main(["--virtual", "3", "--real", "0"]) == 0
    assert "runs that keep every invariant, virtual: 1.000" in capsys.readouterr().out
    told = json.loads((tmp_path / "bench" / "faults.json").read_text())
    assert told["virtual"]["injected"] == told["virtual"]["survived"]
