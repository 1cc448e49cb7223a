"""Records of a run, from ranks or in memory -> frames: one function a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from experiments.errors import RecordsError
from experiments.rows import Row, read_rows
from mlfabric.engines.tallies import mean_tally

SCORES_FILE = "metrics.jsonl"
DISTANCES_FILE = "distances.jsonl"
"""How far the replica was from the server at each snapshot of a run of ranks."""

# Columns and dtypes of the tables; "Int64" holds nulls. Times are seconds of the run's clock.
TRANSFERS = {
    "kind": "str",
    "shard": "int64",
    "updates": "str",
    "src": "str",
    "dst": "str",
    "next_hop": "str",
    "bytes": "int64",
    "complete": "bool",
    "requested_s": "float64",
    "started_s": "float64",
    "ended_s": "float64",
}
UPDATES = {
    "id": "str",
    "shard": "int64",
    "worker": "int64",
    "iteration": "int64",
    "version_pulled": "int64",
    "version_applied": "Int64",
    "status": "str",
    "delay": "Int64",
    "resolved_s": "float64",
    "norm": "float64",
    "push_bytes": "int64",
}
DISTANCES = {"elapsed_s": "float64", "version": "int64", "distance": "float64"}
PROMISES = {
    "elapsed_s": "float64",
    "version": "int64",
    "promised": "float64",
    "bound": "Float64",
}
COMPUTATIONS = {
    "worker": "int64",
    "iteration": "int64",
    "started_s": "float64",
    "real_s": "float64",
    "emulated_s": "float64",
    "overran": "bool",
}


@dataclass(frozen=True)
class Records:
    """What one run recorded."""

    transfers: pd.DataFrame  # one row a transfer: TRANSFERS, `updates` comma-joined ids
    updates: pd.DataFrame  # one row an update, and server: UPDATES
    computations: pd.DataFrame  # one row an iteration: COMPUTATIONS
    metrics: pd.DataFrame  # one row a snapshot: version, elapsed_s, then the metrics
    totals: Row  # elapsed_s; version, applied, dropped; parts: the latter two summed over servers
    # One row a snapshot where there is a replica, one a commit where that is bounded.
    distances: pd.DataFrame = field(default_factory=lambda: _table((), DISTANCES))
    promises: pd.DataFrame = field(default_factory=lambda: _table((), PROMISES))
    events: Sequence[Row] = ()  # rows of kind fault, loss, recovery and lost, in order of time


def read_records(run_dir: Path, *, whole: bool = True) -> Records:
    """Read all records of a finished run; raises RecordsError naming file and line.

    Not `whole`: ranks may have been killed while they wrote.
    """
    paths = sorted((run_dir / "records").glob("rank-*.jsonl"))
    paths.append(run_dir / DISTANCES_FILE)
    rows = [row for path in paths for row in read_rows(path, whole=whole)]
    return records_of(rows, metrics(read_rows(run_dir / SCORES_FILE)))


def records_of(rows: Sequence[Row], scores: pd.DataFrame) -> Records:
    """The records that these rows and scores make; raises RecordsError where they cannot."""
    end = totals(rows)
    return Records(
        transfers(rows),
        updates(rows),
        computations(rows),
        scores,
        end,
        _table(_of("distance", rows), DISTANCES),
        _table(_of("promise", rows), PROMISES),
        _events(rows),
    )


def transfers(rows: Iterable[Row]) -> pd.DataFrame:
    """One row a transfer, in the order in which they started."""
    chosen = [
        {**row, "updates": ",".join(map(str, row["updates"]))} for row in _of("transfer", rows)
    ]
    return _table(chosen, TRANSFERS).sort_values(["started_s", "ended_s"], ignore_index=True)


def updates(rows: Sequence[Row]) -> pd.DataFrame:
    """One row an update and server, in the order in which they were applied or dropped.

    Of a synchronous sum that only some workers had when the run ended, nothing is told.
    """
    last = {row["shard"]: row["version"] for row in _of("totals", rows)}
    told = [r for r in _of("update", rows) if (r["version_applied"] or 0) < last[r["shard"]]]
    return _table(told, UPDATES).sort_values("resolved_s", kind="stable", ignore_index=True)


def computations(rows: Iterable[Row]) -> pd.DataFrame:
    """One row an iteration of a worker."""
    table = _table(_of("computation", rows), COMPUTATIONS)
    return table.sort_values(["worker", "iteration"], ignore_index=True)


def metrics(rows: Iterable[Row]) -> pd.DataFrame:
    """One row an evaluated snapshot, in the order of the run's clock."""
    table = pd.DataFrame([dict(row) for row in rows])
    if table.empty:
        return pd.DataFrame({"version": pd.Series(dtype="int64"), "elapsed_s": []})
    return table.sort_values("elapsed_s", kind="stable", ignore_index=True)


def totals(rows: Iterable[Row]) -> Row:
    """How the run ended, over all servers; raises RecordsError unless each has said so once."""
    found = _of("totals", rows)
    shards = found[0]["shards"] if found else 1
    if sorted(row["shard"] for row in found) != list(range(shards)):
        raise RecordsError(f"the run recorded {len(found)} rows of totals; must be {shards}")
    parts = {key: sum(row[key] for row in found) for key in ("applied", "dropped")}
    elapsed_s = max(row["elapsed_s"] for row in found)
    return {"elapsed_s": elapsed_s, **mean_tally(found, shards), "parts": parts}


def write_tables(records: Records, run_dir: Path) -> None:
    """Write every table of the run as parquet."""
    records.transfers.to_parquet(run_dir / "trace.parquet")
    records.updates.to_parquet(run_dir / "updates.parquet")
    records.computations.to_parquet(run_dir / "computations.parquet")
    records.metrics.to_parquet(run_dir / "metrics.parquet")
    if len(records.distances):
        records.distances.to_parquet(run_dir / "distances.parquet")


def _events(rows: Iterable[Row]) -> list[Row]:
    """What has been done to hosts, and what became of that."""
    found = [row for row in rows if row["row"] in ("fault", "loss", "recovery", "lost")]
    return sorted(found, key=lambda row: row.get("elapsed_s", row.get("at_s", 0.0)))


def _of(kind: str, rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["row"] == kind]


def _table(rows: Sequence[Row], columns: dict[str, str]) -> pd.DataFrame:
    try:
        data = {name: pd.Series([row[name] for row in rows], dtype="object") for name in columns}
        return pd.DataFrame(data).astype(columns)
    except KeyError as missing:
        raise RecordsError(f"a record lacks {missing}; must have {', '.join(columns)}") from None
    except (TypeError, ValueError) as error:
        raise RecordsError(f"a record holds a value of the wrong type: {error}") from None
