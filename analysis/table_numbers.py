"""What summary.json says of a speedup table: its cells, how well it predicts, what it claims."""

from __future__ import annotations

import math
from typing import Any

from analysis import paper
from analysis.findings import AHEAD, CLOSE, Finding, ahead, close_to, ratio
from analysis.numbers import interval, known
from analysis.speedups import Cell, Estimate, columns_ordered, log_errors, rows_ordered
from analysis.variants import PIPELINED, RING

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


def table_findings(numbers: dict[str, Any]) -> list[Finding]:
    """What a table of these numbers says; nothing without targets.

    A ratio beats 1 in a cell when its whole interval lies above AHEAD.
    """
    cells: dict[str, Any] = numbers["cells"]
    if numbers["measure"] != "time_to_target":
        return []
    beside_paper = [_beside_paper(name, cell) for name, cell in cells.items()]
    return [*beside_paper, *_ahead(cells), _up_to_three(cells), _orders(numbers)]


def _beside_paper(name: str, cell: dict[str, Any]) -> Finding:
    ours, n = cell["paper_mode"], cell["n"]
    how = "fitted" if cell["fitted"] else "held out"
    infinite = ours is None and n > 0
    return Finding(
        f"{name}, paper mode over {RING} ({how})",
        ratio(ours, n),
        f"median within {CLOSE - 1:.0%} of the paper's",
        False if infinite else close_to(ours, cell["paper"]),
        cell["paper"],
        cell["ci95"],
        n,
        cell["missed"],
        reason=f"{RING} missed its target" if infinite else None,
    )


def _ahead(cells: dict[str, Any]) -> list[Finding]:
    texts = {
        "pipelined_over_paper_mode": "pipelined sums are faster than paper mode in every cell",
        "best_baseline": "pipelined sums are faster than the better baseline in every cell",
    }
    found = []
    for name, text in texts.items():
        holds, reason = _all_above(cells, name)
        tolerance = f"all {len(paper.SPEEDUP)} intervals above {AHEAD:g}"
        span = _span(cells, name)
        found.append(Finding(text, span, tolerance, holds, n=_fewest(cells), reason=reason))
    return found


def _all_above(cells: dict[str, Any], name: str) -> tuple[bool | None, str | None]:
    """Whether every cell of the table has an interval above AHEAD; None while none is below and
    some are not there, and why."""
    verdicts = [ahead(cell[f"{name}_ci95"]) for cell in cells.values()]
    if any(verdict is False for verdict in verdicts):
        return False, None
    told = sum(verdict is True for verdict in verdicts)
    if told == len(paper.SPEEDUP):
        return True, None
    return None, f"{len(paper.SPEEDUP) - told} of {len(paper.SPEEDUP)} cells have no interval"


def _intervals_above(cells: dict[str, Any], name: str) -> int:
    return sum(ahead(cell[f"{name}_ci95"]) is True for cell in cells.values())


def _span(cells: dict[str, Any], name: str) -> str:
    """Medians from the least to the most, and how many intervals lie above AHEAD."""
    medians = [ratio(cell[name], cell["runs_by_variant"][PIPELINED]) for cell in cells.values()]
    known_ones = sorted(value for value in medians if isinstance(value, float))
    ends = [f"{value:.2f}" for value in known_ones[:1] + known_ones[-1:]]
    span = "–".join([ends[0], "∞"] if ends and "∞" in medians else ends) or "none"
    return f"{span}; {_intervals_above(cells, name)} of {len(cells)} intervals above {AHEAD:g}"


def _up_to_three(cells: dict[str, Any]) -> Finding:
    """The paper's largest speedup; settings are inferred, so that passing it proves little."""
    largest = max(paper.SPEEDUP.values())
    medians = [cell["paper_mode"] for cell in cells.values() if cell["paper_mode"] is not None]
    measured = max(medians, default=None)
    return Finding(
        f"up to 3x faster training than {RING} (paper mode, NS/CS inferred)",
        measured,
        f"largest median at least {largest:g}",
        None if measured is None else measured >= largest,
        largest,
        n=_fewest(cells),
    )


def _orders(numbers: dict[str, Any]) -> Finding:
    orders = numbers["ordering_holds"]
    kept = sum(value is True for key in (ROWS, COLUMNS) for value in orders[key].values())
    of = sum(len(orders[key]) for key in (ROWS, COLUMNS))
    return Finding(
        f"speedups are ordered as in the paper: {ROWS} in rows, {COLUMNS} in columns",
        f"{kept} of {of} rows and columns",
        "all of them",
        orders["all"],
        "all",
        n=_fewest(numbers["cells"]),
    )


def _fewest(cells: dict[str, Any]) -> int:
    return min((min(cell["runs_by_variant"].values()) for cell in cells.values()), default=0)


def _ratio(estimate: Estimate) -> dict[str, Any]:
    return {"median": known(estimate.median), "ci95": _interval(estimate), "n": estimate.n}


def _interval(estimate: Estimate) -> list[float | None] | None:
    return interval(estimate.low, estimate.high)
