"""Speedup tables and paired ratios, against values worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis import paper
from analysis.findings import Finding
from analysis.names import variant_name
from analysis.speedups import (
    Cell,
    SpeedupTable,
    best_baseline,
    columns_ordered,
    log_errors,
    rows_ordered,
)
from analysis.stats import PairedRatio
from analysis.table_numbers import cell_numbers, table_findings, table_numbers
from analysis.variants import ASYNC, PAPER_MODE, PIPELINED, RING

INF = math.inf
PAPER = dict(paper.SPEEDUP)
TIMES = {
    PAPER_MODE: [10.0, 20.0, 40.0],
    PIPELINED: [5.0, 10.0, 10.0],
    RING: [20.0, 60.0, 60.0],
    ASYNC: [50.0, 40.0, 45.0],
}


def frame(
    times: dict[str, list[float]], compute: str = "cs1", network: str = "ns1", **rates: float
) -> pd.DataFrame:
    """Three runs a variant, of 100 s; `rates` are updates applied a second."""
    rows = [
        {"variant": variant, "seed": seed, "time_to_target_s": time_s}
        | {"compute": compute, "network": network, "elapsed_s": 100.0}
        | {"updates_applied": 100.0 * rates.get(variant, 1.0)}
        for variant, own in times.items()
        for seed, time_s in enumerate(own)
    ]
    return pd.DataFrame(rows)


def cell(times: dict[str, list[float]], **settings: Any) -> Cell:
    (found,) = SpeedupTable()(frame(times, **settings))
    return found


def nine(factors: dict[tuple[str, str], float]) -> list[Cell]:
    """A table in which paper mode gains these factors over a ring of 60 s."""
    return SpeedupTable()(
        pd.concat(
            [
                frame({RING: [60.0], PAPER_MODE: [60.0 / factor]}, cs.lower(), ns.lower())
                for (cs, ns), factor in factors.items()
            ]
        )
    )


def test_variants_are_named_by_policy_and_aggregation() -> None:
    assert variant_name("mlfabric_a", "paper") == variant_name("mlfabric_a", None) == "mlfabric_a"
    assert variant_name("mlfabric_a", "pipelined") == PIPELINED
    assert variant_name("async_ps", None) == ASYNC
    assert variant_name("async_ps", None, 30) == "async_ps, 30 servers"
    several = variant_name("mlfabric_a", "pipelined", 8, colocated=True)
    assert several == "mlfabric_a pipelined, 8 servers beside workers"
    assert variant_name("ssp", None, 1, colocated=True) == "ssp, 1 server beside workers"


def test_a_ratio_is_taken_pair_by_pair() -> None:
    runs = pd.DataFrame(
        {"network": ["a", "a", "a", "b", "b", "b"], "seed": [0, 1, 2, 2, 0, 3]}
    ).assign(x=[6.0, 8.0, 9.0, 3.0, 2.0, 1.0])
    pairs = PairedRatio("a", "b", "network")(runs, "x")
    assert dict(zip(pairs["seed"], pairs["ratio"], strict=True)) == {0: 3.0, 2: 3.0}


def test_a_ratio_of_misses_is_that_of_infinities() -> None:
    runs = pd.DataFrame(
        {
            "network": ["a"] * 3 + ["b"] * 3,
            "seed": [0, 1, 2] * 2,
            "x": [INF, 4.0, INF, 2.0, INF, INF],
        }
    )
    ratios = PairedRatio("a", "b", "network")(runs, "x")["ratio"].to_numpy()
    np.testing.assert_array_equal(ratios, [INF, 0.0, math.nan])


def test_speedups_are_medians_of_pairs() -> None:
    """Ring over paper mode: 2, 3, 1.5. Over pipelined: 4, 6, 6. Async (median 45 < 60) over
    pipelined: 10, 4, 4.5. Paper mode over pipelined: 2, 2, 4."""
    found = cell(TIMES)
    assert found.best_baseline == ASYNC
    medians = {name: estimate.median for name, estimate in found.speedup.items()}
    assert medians == {
        "paper_mode": 2.0,
        "pipelined": 6.0,
        "best_baseline": 4.5,
        "pipelined_over_paper_mode": 2.0,
    }
    plain = found.speedup["paper_mode"]
    assert (plain.low, plain.high, plain.n, plain.missed) == (1.5, 3.0, 3, 0)


def test_throughput_is_ours_over_the_baselines() -> None:
    rates = {PAPER_MODE: 3.0, PIPELINED: 6.0, RING: 2.0, ASYNC: 1.0}
    medians = {name: e.median for name, e in cell(TIMES, **rates).throughput.items()}
    assert medians == {
        "paper_mode": 1.5,
        "pipelined": 3.0,
        "best_baseline": 6.0,
        "pipelined_over_paper_mode": 2.0,
    }


def test_misses_are_infinite_for_the_baseline_and_zero_for_ours() -> None:
    found = cell(TIMES | {RING: [INF, INF, 60.0], PIPELINED: [INF, 10.0, INF]})
    assert found.speedup["paper_mode"].median == INF
    assert found.speedup["pipelined"].median == 0.0
    assert found.speedup["pipelined"].missed == 3
    assert found.missed == {PAPER_MODE: 0, PIPELINED: 2, RING: 2, ASYNC: 0}
    numbers = cell_numbers(found, lost=1)
    assert (numbers["paper_mode"], numbers["ci95"], numbers["missed"]) == (None, [1.5, None], 2)
    assert (numbers["pipelined"], numbers["lost"]) == (0.0, 1)


@pytest.mark.parametrize(
    ("ring", "other", "best"),
    [
        ([10.0, 90.0, 20.0], [30.0, 30.0, 30.0], RING),
        ([10.0, INF, INF], [90.0, 90.0, 90.0], ASYNC),
        ([INF, INF, INF], [INF, INF, INF], RING),
        ([30.0, 30.0, 30.0], [30.0, 30.0, 30.0], RING),
        ([math.nan] * 3, [math.nan] * 3, ASYNC),
    ],
)
def test_the_better_baseline_has_the_smaller_median(
    ring: list[float], other: list[float], best: str
) -> None:
    """Without targets it is the one with more updates a second."""
    runs = frame({RING: ring, ASYNC: other}).assign(updates_per_s=[1.0] * 3 + [2.0] * 3)
    assert best_baseline(runs) == best


def test_fitted_cells_are_the_row_cs1_and_the_column_ns2() -> None:
    held_out = [place for place in paper.SPEEDUP if not paper.fitted(*place)]
    assert held_out == [("CS2", "NS1"), ("CS2", "NS3"), ("CS3", "NS1"), ("CS3", "NS3")]


def test_the_papers_own_table_has_no_error_and_is_ordered() -> None:
    cells = nine(paper.SPEEDUP)
    numbers = table_numbers(cells)
    assert numbers["held_out_error"]["n"] == 4
    assert numbers["held_out_error"]["mean_abs_log"] == pytest.approx(0.0, abs=1e-9)
    assert numbers["ordering_holds"]["all"] is True
    assert numbers["baseline"] == "ring_allreduce"


def test_held_out_error_is_the_mean_absolute_logarithm() -> None:
    """Twice the paper's value in one held-out cell, half in another, all fitted cells far off."""
    wrong = {place: value * 9 if paper.fitted(*place) else value for place, value in PAPER.items()}
    wrong[("CS2", "NS1")] *= 2
    wrong[("CS3", "NS3")] /= 2
    numbers = table_numbers(nine(wrong))["held_out_error"]
    assert numbers["mean_abs_log"] == pytest.approx(math.log(2) / 2, abs=1e-6)
    assert numbers["cells"]["CS3/NS3"] == pytest.approx(math.log(2), abs=1e-6)
    assert numbers["cells"]["CS2/NS3"] == pytest.approx(0.0, abs=1e-6)


def test_an_infinite_speedup_makes_the_error_infinite_and_is_not_left_out() -> None:
    cells = nine(PAPER | {("CS2", "NS1"): 0.0001})
    missed = SpeedupTable()(frame({RING: [INF], PAPER_MODE: [1.0]}, "cs2", "ns1"))
    together = [c for c in cells if c.name != "CS2/NS1"] + missed
    assert log_errors(together)["CS2/NS1"] == INF
    assert table_numbers(together)["held_out_error"]["mean_abs_log"] is None


def test_an_order_broken_or_unknown_is_told() -> None:
    cells = nine(PAPER | {("CS2", "NS2"): 2.5, ("CS1", "NS1"): 1.9})
    assert rows_ordered(cells) == {"CS1": True, "CS2": False, "CS3": True}
    assert columns_ordered(cells) == {"NS1": True, "NS2": True, "NS3": True}  # 1.9 >= 1.9: a tie
    without = [cell for cell in cells if cell.name != "CS3/NS3"]
    assert rows_ordered(without)["CS3"] is None
    assert columns_ordered(without)["NS3"] is None
    assert table_numbers(without)["ordering_holds"]["all"] is None


def findings_of(pipelined_s: float) -> dict[str, Finding]:
    times = {RING: [60.0] * 5, ASYNC: [50.0] * 5, PAPER_MODE: [40.0] * 5}
    tables = [
        frame(times | {PIPELINED: [pipelined_s] * 5}, cs.lower(), ns.lower()) for cs, ns in PAPER
    ]
    found = table_findings(numbers_of(SpeedupTable()(pd.concat(tables))))
    assert all(not finding.indicative for finding in found)
    return {finding.claim: finding for finding in found}


def numbers_of(cells: list[Cell]) -> dict[str, Any]:
    named = {cell.name: cell_numbers(cell, 0) for cell in cells}
    return {"measure": "time_to_target", "cells": named, **table_numbers(cells)}


def test_a_claim_holds_when_every_interval_lies_above_one() -> None:
    over_paper = "pipelined sums are faster than paper mode in every cell"
    over_best = "pipelined sums are faster than the better baseline in every cell"
    fast, slow = findings_of(30.0), findings_of(45.0)
    assert (fast[over_paper].holds, fast[over_best].holds) == (True, True)
    assert (slow[over_paper].holds, slow[over_best].holds) == (False, True)
    assert fast[over_best].ours == "1.67–1.67; 9 of 9 intervals above 1.01"
    assert slow[over_paper].ours == "0.89–0.89; 0 of 9 intervals above 1.01"


def test_every_cell_stands_beside_the_papers_value_and_is_close_or_not() -> None:
    found = findings_of(30.0)
    held_out = found["CS2/NS1, paper mode over ring_allreduce (held out)"]
    assert (held_out.paper, held_out.ours, held_out.holds) == (2.96, 1.5, False)
    fitted = found["CS1/NS1, paper mode over ring_allreduce (fitted)"]
    assert (fitted.paper, fitted.ours, fitted.holds) == (1.74, 1.5, True)


def test_other_claims_of_the_table() -> None:
    found = findings_of(30.0)
    largest, order = (found[text] for text in list(found)[-2:])
    assert (largest.holds, largest.ours, largest.paper) == (False, 1.5, 2.96)
    assert order.holds is False  # all cells are equal
    few = {finding.claim: finding for finding in table_findings(numbers_of(nine(PAPER)))}
    assert few[largest.claim].holds is True
    assert few[order.claim].holds is True
    assert few[order.claim].verdict == "holds, indicative"
