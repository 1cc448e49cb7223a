"""What summary.json says of a speedup table: its cells, how well it predicts, what it claims."""

from __future__ import annotations

import math
from typing import Any

from analysis import paper
from analysis.numbers import interval, known
from analysis.speedups import Cell, Estimate, columns_ordered, log_errors, rows_ordered
from analysis.stats import ENOUGH_RUNS
from analysis.variants import RING

ROWS, COLUMNS = "NS1>NS3>NS2", "CS2>CS3>=CS1"


def cell_numbers(cell: Cell, lost: int) -> dict[str, Any]:
    """One cell: medians by their plain names; ci95, n and missed are those of paper_mode."""
    plain, speedup = cell.speedup["paper_mode"], cell.speedup
    return {
        "paper": cell.paper,
        **{name: known(speedup[name].median) for name in ("paper_mode", "pipelined")},
        "best_baseline": known(speedup["best_baseline"].median),
        "ci95": interval(plain.low, plain.high),
        "n": plain.n,
        "missed": plain.missed,
        "pipelined_ci95": _interval(speedup["pipelined"]),
        "best_baseline_name": cell.best_baseline,
        "best_baseline_ci95": _interval(speedup["best_baseline"]),
        "pipelined_over_paper_mode": known(speedup["pipelined_over_paper_mode"].median),
        "pipelined_over_paper_mode_ci95": _interval(speedup["pipelined_over_paper_mode"]),
        "throughput": {name: _ratio(estimate) for name, estimate in cell.throughput.items()},
        "fitted": cell.fitted,
        "runs_by_variant": dict(cell.runs),
        "missed_by_variant": dict(cell.missed),
        "lost": lost,
    }


def table_numbers(cells: list[Cell]) -> dict[str, Any]:
    """What is said of the whole table."""
    errors = log_errors(cells)
    mean = sum(errors.values()) / len(errors) if errors else math.nan
    rows, columns = rows_ordered(cells), columns_ordered(cells)
    known_orders = [value for value in (*rows.values(), *columns.values()) if value is not None]
    return {
        "baseline": RING,
        "source": paper.CITATION,
        "held_out_error": {
            "mean_abs_log": known(mean),
            "n": len(errors),
            "cells": {name: known(error) for name, error in errors.items()},
        },
        "ordering_holds": {
            ROWS: rows,
            COLUMNS: columns,
            "all": all(known_orders) if len(known_orders) == len(rows) + len(columns) else None,
        },
    }


def table_claims(cells: list[Cell], workload: str) -> list[dict[str, Any]]:
    """The claims that rest on the table: text, whether it holds, what was measured.

    A ratio beats 1 in a cell when its whole interval lies above 1. `indicative`: fewer pairs
    than a claim needs.
    """
    common = {"workload": workload, "indicative": _fewest(cells) < ENOUGH_RUNS}
    return [claim | common for claim in (*_ratios(cells), _up_to_three(cells), _orders(cells))]


def _ratios(cells: list[Cell]) -> list[dict[str, Any]]:
    texts = {
        "pipelined_over_paper_mode": "pipelined sums are faster than paper mode in every cell",
        "best_baseline": "pipelined sums are faster than the better baseline in every cell",
    }
    return [
        {
            "claim": text,
            "holds": len(cells) == len(paper.SPEEDUP)
            and all(cell.speedup[name].low > 1 for cell in cells),
            "measured": {
                cell.name: _ratio(cell.speedup[name]) | {"missed": cell.speedup[name].missed}
                for cell in cells
            },
        }
        for name, text in texts.items()
    ]


def _up_to_three(cells: list[Cell]) -> dict[str, Any]:
    """The paper's largest speedup; settings are inferred, so that passing it proves little."""
    largest = max(paper.SPEEDUP.values())
    medians = [cell.speedup["paper_mode"].median for cell in cells]
    measured = max((value for value in medians if not math.isnan(value)), default=math.nan)
    return {
        "claim": f"up to 3x faster training than {RING} (paper mode, NS/CS inferred)",
        "holds": measured >= largest,
        "measured": known(measured),
        "paper": largest,
    }


def _orders(cells: list[Cell]) -> dict[str, Any]:
    numbers = table_numbers(cells)["ordering_holds"]
    return {
        "claim": f"speedups are ordered as in the paper: {ROWS} in rows, {COLUMNS} in columns",
        "holds": numbers["all"] is True,
        "measured": numbers,
    }


def _fewest(cells: list[Cell]) -> int:
    return min((e.n for cell in cells for e in cell.speedup.values()), default=0)


def _ratio(estimate: Estimate) -> dict[str, Any]:
    return {"median": known(estimate.median), "ci95": _interval(estimate), "n": estimate.n}


def _interval(estimate: Estimate) -> list[float | None] | None:
    return interval(estimate.low, estimate.high)
