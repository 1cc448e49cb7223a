"""Records of the ranks become tables: values worked out by hand from the rows below."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
from experiments.tail import Tail

TRANSFER = {
    "row": "transfer",
    "kind": "sum",
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
TOTALS = {"row": "totals", "version": 3, "elapsed_s": 5.0, "applied": 1, "dropped": 1}


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
    assert len(updates([UPDATE, later], 3)) == 1


def test_a_dropped_update_has_no_version() -> None:
    table = updates([UPDATE, DROPPED, TOTALS], 99)
    assert list(table["id"]) == ["w2-0", "w1-0"]
    assert table["version_applied"].isna().tolist() == [True, False]
    assert table["version_applied"][1] == 2


def test_empty_tables_keep_their_columns_and_types() -> None:
    for function, columns in (
        (transfers, TRANSFERS),
        (lambda rows: updates(rows, 0), UPDATES),
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
        updates([{**UPDATE, "worker": "w1"}], 99)


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
    assert records.totals == TOTALS
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
    index = tmp_path / "index.jsonl"
    write_rows(index, {"file": "0.npy"})
    rows = follow(tmp_path)
    assert next(rows) == {"file": "0.npy"}
    write_rows(index, {"file": "0.npy"}, {"file": "1.npy"})
    (tmp_path / "complete").touch()
    assert list(rows) == [{"file": "1.npy"}]
