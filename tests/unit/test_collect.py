"""Records of the ranks become tables: values worked out by hand from the rows below."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.collect import (
    COMPUTATIONS,
    TRANSFERS,
    UPDATES,
    computations,
    read_records,
    totals,
    transfers,
    updates,
    write_tables,
)
from experiments.errors import RecordsError
from experiments.evaluate import follow
from experiments.shards import Row, ShardedSnapshots
from experiments.tail import Tail

TRANSFER = {
    "row": "transfer",
    "kind": "sum",
    "shard": 0,
    "updates": ["w1-0", "w2-0"],
    "src": "w1",
    "dst": "server",
    "next_hop": "server",
    "complete": True,
    "bytes": 100,
    "requested_s": 0.1,
    "started_s": 0.2,
    "ended_s": 0.3,
}
UPDATE = {
    "row": "update",
    "shard": 0,
    "id": "w1-0",
    "worker": 0,
    "iteration": 0,
    "version_pulled": 0,
    "version_applied": 2,
    "status": "applied",
    "delay": 1,
    "resolved_s": 0.3,
    "norm": 1.5,
    "push_bytes": 60,
}
DROPPED = {**UPDATE, "id": "w2-0", "status": "dropped", "version_applied": None, "resolved_s": 0.25}
COMPUTATION = {
    "row": "computation",
    "worker": 1,
    "iteration": 0,
    "started_s": 0.0,
    "real_s": 0.01,
    "emulated_s": 0.3,
    "overran": False,
}
TOTALS = {
    "row": "totals",
    "shard": 0,
    "shards": 1,
    "version": 3,
    "elapsed_s": 5.0,
    "applied": 1,
    "dropped": 1,
}


def write_rows(path: Path, *rows: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_transfers_are_ordered_by_start_and_name_their_updates() -> None:
    later = {**TRANSFER, "updates": [], "started_s": 0.9, "kind": "model"}
    table = transfers([later, UPDATE, TRANSFER])
    assert list(table["updates"]) == ["w1-0,w2-0", ""]
    assert list(table["kind"]) == ["sum", "model"]


def test_a_sum_that_the_run_did_not_count_is_not_told() -> None:
    later = {**UPDATE, "version_applied": 3}
    assert len(updates([UPDATE, later, TOTALS])) == 1
    other = [{**later, "shard": 1}, {**TOTALS, "shard": 1, "version": 4}]
    assert len(updates([UPDATE, later, TOTALS, *other])) == 2


def test_a_dropped_update_has_no_version() -> None:
    table = updates([UPDATE, DROPPED, TOTALS])
    assert list(table["id"]) == ["w2-0", "w1-0"]
    assert table["version_applied"].isna().tolist() == [True, False]
    assert table["version_applied"][1] == 2


def test_empty_tables_keep_their_columns_and_types() -> None:
    for function, columns in (
        (transfers, TRANSFERS),
        (updates, UPDATES),
        (computations, COMPUTATIONS),
    ):
        table = function([])
        assert list(table.columns) == list(columns)
        assert str(table.dtypes.iloc[-1]) == list(columns.values())[-1]


def test_a_row_without_a_column_or_with_a_wrong_value_is_named() -> None:
    short = {key: value for key, value in TRANSFER.items() if key != "next_hop"}
    with pytest.raises(RecordsError, match="a record lacks 'next_hop'"):
        transfers([short])
    with pytest.raises(RecordsError, match="wrong type"):
        updates([{**UPDATE, "worker": "w1"}, TOTALS])


@pytest.mark.parametrize("count", [0, 2])
def test_a_run_has_exactly_one_row_of_totals(count: int) -> None:
    with pytest.raises(RecordsError, match=f"recorded {count} rows of totals; must be 1"):
        totals([UPDATE, *[TOTALS] * count])


def test_records_of_all_ranks_are_read_and_written_as_tables(tmp_path: Path) -> None:
    write_rows(tmp_path / "records" / "rank-00.jsonl", UPDATE, DROPPED, TOTALS)
    write_rows(tmp_path / "records" / "rank-02.jsonl", TRANSFER, COMPUTATION)
    scores = [
        {"version": 2, "elapsed_s": 2.0, "loss": 0.5},
        {"version": 0, "elapsed_s": 0.0, "loss": float("nan")},
    ]
    write_rows(tmp_path / "metrics.jsonl", *scores)
    records = read_records(tmp_path)
    write_tables(records, tmp_path)
    counts = {"version": 3, "applied": 1, "dropped": 1}
    assert records.totals == {"elapsed_s": 5.0, **counts, "parts": {"applied": 1, "dropped": 1}}
    assert list(records.metrics["version"]) == [0, 2]
    for name in ("trace", "updates", "computations", "metrics"):
        table = pd.read_parquet(tmp_path / f"{name}.parquet")
        assert len(table) == {"updates": 2, "metrics": 2}.get(name, 1)
    stored = pd.read_parquet(tmp_path / "updates.parquet")
    assert stored["version_applied"].isna().sum() == 1
    assert pd.isna(pd.read_parquet(tmp_path / "metrics.parquet")["loss"][0])


def test_a_torn_record_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "records" / "rank-03.jsonl"
    write_rows(path, TOTALS)
    path.write_text(path.read_text() + '{"row": "upd')
    with pytest.raises(RecordsError, match=r"rank-03\.jsonl, line 2: not a whole JSON record"):
        read_records(tmp_path)


def test_a_growing_file_is_read_once_and_only_in_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    tail = Tail(path)
    assert tail.rows() == []
    path.write_text('{"a": 1}\n{"a": ')
    assert tail.rows() == [{"a": 1}]
    assert tail.rows() == []
    path.write_text('{"a": 1}\n{"a": 2}\n{"a": 3}\n')
    assert tail.rows() == [{"a": 2}, {"a": 3}]


def test_the_evaluator_follows_snapshots_until_they_are_complete(tmp_path: Path) -> None:
    shown = [snapshot(tmp_path, 0, version=v, elapsed_s=e) for v, e in ((0, 0.0), (3, 1.0))]
    write_rows(tmp_path / "index-0.jsonl", shown[0])
    models = follow(tmp_path, servers=1)
    model, version, elapsed_s = next(models)
    assert (model.tolist(), version, elapsed_s) == ([0.0], 0, 0.0)
    write_rows(tmp_path / "index-0.jsonl", *shown)
    (tmp_path / "complete").touch()
    assert [(m.tolist(), v, e) for m, v, e in models] == [([3.0], 3, 1.0)]


def test_what_several_servers_show_is_put_together_tick_by_tick(tmp_path: Path) -> None:
    """The second server misses tick 1; nothing is told of a tick before all are past it."""
    first = [snapshot(tmp_path, 0, 0, 0.0), snapshot(tmp_path, 0, 4, 1.0)]
    first += [
        snapshot(tmp_path, 0, 4, 2.0),
        snapshot(tmp_path, 0, 4, 3.0),
        snapshot(tmp_path, 0, 9),
    ]
    second = [snapshot(tmp_path, 1, 0, 0.1), snapshot(tmp_path, 1, 2, 2.2)]
    second += [snapshot(tmp_path, 1, 3, 3.1), snapshot(tmp_path, 1, 8)]
    write_rows(tmp_path / "index-0.jsonl", *first)
    snapshots = ShardedSnapshots(tmp_path, 2)
    assert list(snapshots.models()) == []
    write_rows(tmp_path / "index-1.jsonl", *second[:2])
    found = list(snapshots.models())
    write_rows(tmp_path / "index-1.jsonl", *second)
    found += snapshots.models()
    assert [(m.tolist(), v, e) for m, v, e in found] == [
        ([0.0, 0.0], 0, 0.1),
        ([4.0, 0.0], 2, 1.0),
        ([4.0, 2.0], 3, 2.2),
        ([4.0, 3.0], 3, 3.1),
        ([9.0, 8.0], 8, 9.0),
    ]


def snapshot(folder: Path, shard: int, version: int, elapsed_s: float | None = None) -> Row:
    """A row of the index, its file written; without a time it is the run's last, after 9 s."""
    name = f"{shard}-{version}-{elapsed_s}.npy"
    np.save(folder / name, np.array([float(version)], np.float32))
    told = {"file": name, "version": version, "elapsed_s": 9.0 if elapsed_s is None else elapsed_s}
    return told | {"tick": None if elapsed_s is None else int(elapsed_s)}
