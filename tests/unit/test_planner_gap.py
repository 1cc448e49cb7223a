"""The gap study: what is counted, and that instances are on equal terms."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from analysis.figures import planner_gap
from experiments.bench import gap
from experiments.bench.instances import FAMILIES, draw
from mlfabric.planning.planner import plan


def record(optimum_s, **means):
    others = dict.fromkeys(gap.HEURISTICS, 4.0)
    return {
        "family": "equal",
        "updates": 3,
        "redrawn": 1,
        "optimum_s": optimum_s,
        "mean_completion_s": others | means,
    }


def test_gaps_are_shares_of_the_optimum_of_solved_instances():
    # 5/4 − 1, 4/4 − 1, 3/4 − 1; the unsolved one counts nowhere.
    records = [record(4.0, paper=5.0), record(4.0), record(4.0, pipelined=3.0), record(None)]
    summary = gap.summarize(records)
    paper, pipelined = summary["gap"]["paper"], summary["gap"]["pipelined"]
    assert (summary["solved"], summary["unsolved"], summary["redrawn"]) == (3, 1, 4)
    assert paper["mean"] == pytest.approx(0.25 / 3)
    assert (paper["max"], paper["as_good_share"]) == (0.25, pytest.approx(2 / 3))
    assert (pipelined["min"], pipelined["as_good_share"]) == (-0.25, 1.0)
    assert summary["gap_by_updates"]["3"] == summary["gap_by_family"]["equal"] == summary["gap"]
    assert summary["gap_by_updates"]["2"] == {}


def test_a_claim_fails_above_what_is_allowed():
    held, broken = (gap.summarize([record(4.0, paper=mean)])["claims"] for mean in (4.18, 4.3))
    assert [claim["holds"] for claim in held] == [True, True]
    assert [claim["holds"] for claim in broken] == [False, True]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_number_is_the_same_instance(family):
    first, again, other = draw(family, 3), draw(family, 3), draw(family, 4)
    assert (first.updates, first.aggregators) == (again.updates, again.aggregators)
    assert first.residual.profiles() == again.residual.profiles()
    assert (first.updates, first.aggregators) != (other.updates, other.aggregators)


@pytest.mark.parametrize(("shift_s", "on_grid"), [(0.0, True), (0.5, False)])
def test_a_plan_off_the_grid_is_noticed(shift_s, on_grid):
    batch = draw("equal", 0)
    shifted = tuple(update._replace(ready_s=shift_s) for update in batch.updates)
    assert gap.on_grid(plan(replace(batch, updates=shifted, aggregation="none"))) is on_grid


def test_a_small_study_is_written_and_drawn(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gap, "RESULTS", tmp_path)
    monkeypatch.setattr("experiments.bench.report.RESULTS", tmp_path)
    gap.main(["--instances", "14"])
    results = json.loads((tmp_path / "bench" / "planner_gap.json").read_text())
    assert results["solved"] == len(results["instances"]) == 14
    assert all(
        spread["min"] > -1e-9 for name, spread in results["gap"].items() if name in gap.IN_MODEL
    )
    assert "14 solved" in capsys.readouterr().out
    assert (tmp_path / "bench" / "planner_gap.png").stat().st_size > 10_000
    (axis,) = planner_gap.draw(results).axes
    assert len(axis.lines) == len(gap.HEURISTICS) + 1
