"""replication and failover: what they show and tell of made-up runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.figures import failover, replication
from tests.figures.virtual_runs import recorded, run_row

SECONDS = {None: 20.0, "chain": 32.0, "bounded 2": 20.8, "bounded 8": 20.5}


def replicated(folder: Path, seeds: int = 5, exceeded: int = 0) -> list[dict[str, Any]]:
    """Runs of 100 updates; the server sends 40 MB an update, and as much again in a chain."""
    rows = []
    for scheme, seconds in SECONDS.items():
        for seed in range(seeds):
            name = {"replication": scheme, "network": "none", "compute": "none"}
            row = run_row("mlfabric_a", seed, **name, elapsed_s=seconds + 0.1 * seed)
            place = folder / f"{scheme}-{seed}"
            place.mkdir()
            bounded = scheme is not None and scheme.startswith("bounded")
            divergence = {"bound": 2.0, "max": 1.0, "exceeded": exceeded} if bounded else None
            egress = 80e8 if scheme == "chain" else 40e8
            told = {"bytes_by_link": {"server": {"egress": egress}}, "divergence": divergence}
            (place / "run.json").write_text(json.dumps(told))
            table = {"elapsed_s": [0.0, 5.0], "version": [0, 9], "distance": [0.0, 1.0]}
            pd.DataFrame(table).to_parquet(place / "distances.parquet")
            rows.append(row | {"folder": str(place), "time_to_target_s": seconds})
    return rows


def test_costs_are_told_over_no_replica_in_pairs(tmp_path: Path) -> None:
    cells = replication.summarize(recorded(replicated(tmp_path)))["cells"]["none/none"]
    assert list(cells) == ["none", "chain", "bounded 2", "bounded 8"]
    assert cells["chain"]["over_none"]["ratio"] == pytest.approx(32.2 / 20.2, abs=0.01)
    assert cells["bounded 8"]["over_none"]["ratio"] == pytest.approx(1.025, abs=0.002)
    assert cells["chain"]["server_mb"]["median"] == 80.0
    assert cells["bounded 2"]["closest"] == 0.5


@pytest.mark.parametrize(("exceeded", "kept"), [(0, True), (1, False)])
def test_verdicts_on_replication(tmp_path: Path, exceeded: int, kept: bool) -> None:
    numbers = replication.summarize(recorded(replicated(tmp_path, exceeded=exceeded)))
    found = {finding.claim: finding.holds for finding in replication.findings(numbers)}
    assert found["none/none: chain: time an update over that without a replica"] is True
    assert found["none/none: bounded 2: time an update over that without a replica"] is True
    assert found["none/none: bounded 8: time an update over that without a replica"] is True
    broken = [claim for claim, holds in found.items() if not holds]
    assert bool(broken) != kept


def test_the_picture_of_replication_has_a_place_for_each_scheme(tmp_path: Path) -> None:
    figure = replication.draw(recorded(replicated(tmp_path)))
    first, *_, last = figure.axes
    assert first.get_xticklabels()[0].get_text() == "none"
    assert len(first.get_xticks()) == 4
    assert {line.get_label() for line in last.lines} >= {"bounded 2", "bounded 8"}


def faulty(folder: Path, recovery_s: float, lost: int) -> dict[str, Any]:
    """A run whose server dies after 10 s."""
    told = {
        "fault_s": 10.0,
        "fault_host": "server",
        "detection_s": 0.02,
        "recovery_s": recovery_s,
        "lost_updates": lost,
    }
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(told))
    transfer = {"kind": "copy", "next_hop": "replica", "started_s": 9.9, "ended_s": 10.1}
    cut = {"kind": "update", "next_hop": "server", "started_s": 9.95, "ended_s": 10.0}
    late = {"kind": "model", "next_hop": "w10", "started_s": 10.3, "ended_s": 10.4}
    early = {"kind": "model", "next_hop": "w2", "started_s": 1.0, "ended_s": 1.1}
    rows = [{**transfer, "complete": True}, {**cut, "complete": False}, late, early]
    pd.DataFrame(rows).fillna({"complete": True}).to_parquet(folder / "trace.parquet")
    row = run_row("mlfabric_a", fault="server_kill", replication="bounded 8")
    return row | {"folder": str(folder)}


@pytest.mark.parametrize(("recovery_s", "lost", "verdicts"), [(0.3, 0, [1, 1]), (2.5, 3, [0, 0])])
def test_verdicts_on_failover(
    tmp_path: Path, recovery_s: float, lost: int, verdicts: list[int]
) -> None:
    runs = recorded([faulty(tmp_path / "run", recovery_s, lost)])
    numbers = failover.summarize(runs)
    cell = numbers["cells"]["server_kill, replication bounded 8"]
    assert (cell["recovery_s"], cell["lost_updates"]) == (recovery_s, lost)
    assert [finding.holds for finding in failover.findings(numbers)] == verdicts


def test_the_timeline_shows_what_was_sent_around_the_fault(tmp_path: Path) -> None:
    (axis,) = failover.draw(recorded([faulty(tmp_path / "run", 0.3, 0)])).axes
    lanes = [tick.get_text() for tick in axis.get_yticklabels()]
    assert lanes == ["server ✝", "replica", "w10"]
    assert sum(patch.get_hatch() is not None for patch in axis.patches) == 1
