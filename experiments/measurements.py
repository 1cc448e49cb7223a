"""Figures of what is measured here and now, without runs: results/<profile>/measured/*.json."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments import compression
from experiments.bench import allreduce, gap, planner, transport
from experiments.bench.allreduce_cases import GLANCE, RATE
from experiments.files import write_json
from experiments.fingerprint import fingerprint

Tell = Callable[[str], None]

GAP_INSTANCES = 210
PEERS = ("ring_allreduce", "gloo")


def _planner_gap(tell: Tell) -> dict[str, Any]:
    tell(f"planner_gap: {GAP_INSTANCES} instances against the exact optimum")
    return gap.study(GAP_INSTANCES)


def _planner_speed(tell: Tell) -> dict[str, Any]:
    tell("planner_speed: batches of up to 1,000 updates")
    return planner.measure_speed()


def _transport(tell: Tell) -> dict[str, Any]:
    tell("transport: single links (half a minute)")
    links = transport.measure_links(RATE)
    tell(f"transport: all-reduce beside {', '.join(PEERS)} (two minutes)")
    sums = allreduce.compare(GLANCE, (allreduce.OURS, *PEERS))
    claims = [*transport.claims_of(links), *sums.pop("claims")]
    return {"links": links, "payload_bound": transport.GOODPUT, "sums": sums, "claims": claims}


MEASURED: dict[str, Callable[[Tell], dict[str, Any]]] = {
    "fig9": compression.measure,
    "planner_gap": _planner_gap,
    "planner_speed": _planner_speed,
    "transport": _transport,
}


def write_measurement(figure: str, folder: Path, tell: Tell) -> None:
    """Write <folder>/<figure>.json; what this very code has written already is kept."""
    path, mark = folder / f"{figure}.json", _mark(figure)
    if _mark_of(path) == mark:
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_json({"fingerprint": mark, **MEASURED[figure](tell)}, path)


def _mark(figure: str) -> str:
    """Of the code that is measured, and of the code that measures it."""
    sources = [inspect.getsource(module) for module in (allreduce, gap, planner, transport)]
    return fingerprint(json.dumps({"figure": figure, "sources": sources}))


def _mark_of(path: Path) -> str | None:
    """The fingerprint that a measurement tells; None where there is none, or half of one."""
    try:
        found: str | None = json.loads(path.read_text()).get("fingerprint")
    except (OSError, ValueError):
        return None
    return found
