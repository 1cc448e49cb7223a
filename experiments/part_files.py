"""What ranks have left in a run's folder, made fit for the run's next part."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from experiments.collect import SCORES_FILE
from experiments.errors import RunFailed
from experiments.rows import Row, keep_rows, read_rows
from experiments.schema import RunConfig
from mlfabric import policies
from mlfabric.checkpoints import REQUEST, Checkpoint, Checkpoints, last_of_part
from mlfabric.emulation.controller import APPLIED_FILE, CLOCK_FILE
from mlfabric.engines.mpi.plan import SCHEDULER_RANK
from mlfabric.engines.mpi.records import records_path

_OF_ONE_PART = (
    *("stop", REQUEST, "progress.json", "model0.npy", "snapshots/complete", CLOCK_FILE),
    "calibration.json",
)


def go_back_to(checkpoint: Checkpoint, hosts: Sequence[str], run_dir: Path, part: int) -> None:
    """Forget what came after the checkpoint, but for the loss of the scheduler: it ended a part,
    and is done to a run once. Raises RunFailed where records are missing, or shorter than then."""
    until_s = checkpoint.elapsed_s
    if strangers := set(hosts) - checkpoint.records.keys():
        raise RunFailed(f"{checkpoint.folder}: does not tell of {', '.join(sorted(strangers))}")
    for rank, host in enumerate(hosts):
        _cut(records_path(run_dir, rank), checkpoint.records[host], hosts[SCHEDULER_RANK])
    told = [run_dir / SCORES_FILE, *(run_dir / "snapshots").glob("index-*.jsonl")]
    for path in told:
        keep_rows(path, lambda row: row["elapsed_s"] <= until_s)
    _cut_applied(run_dir / APPLIED_FILE, until_s)
    for name in _OF_ONE_PART:
        (run_dir / name).unlink(missing_ok=True)
    for path in run_dir.glob("failure-*.txt"):
        path.unlink()
    console = run_dir / "console.log"
    if console.exists():
        console.rename(run_dir / f"console-{part - 1}.log")


def salvage(config: RunConfig, run_dir: Path, part: int) -> bool:
    """Complete the checkpoint that ranks have left that lost their scheduler; whether that can be.

    What the scheduler had counted is in its records; what it decided and the server did not do any
    more has not happened.
    """
    checkpoints, number = Checkpoints(run_dir), last_of_part(part)
    scheduler, *others = config.hosts
    if config.cluster.servers > 1 or not checkpoints.parts(number).issuperset(others):
        return False
    server = checkpoints.part(number, config.cluster.server_hosts[0])
    _, version, _ = server["roles"]["server 0"]
    records = records_path(run_dir, SCHEDULER_RANK)
    keep_rows(records, lambda row: not _came_to_nothing(row, version))
    roles = {}
    if policies.place(config.policy.name) == "scheduler":
        fates = [row["status"] for row in read_rows(records) if row["row"] == "update"]
        counts = {status: fates.count(status) for status in ("applied", "dropped")}
        roles["coordinator 0"] = ({"version": version, **counts}, None)
    checkpoints.write(number, scheduler, {"roles": roles, "trainer": None})
    sizes = {
        host: records_path(run_dir, rank).stat().st_size for rank, host in enumerate(config.hosts)
    }
    checkpoints.complete(number, server["elapsed_s"], sizes)
    return True


def _came_to_nothing(row: Row, version: int) -> bool:
    return row["row"] == "update" and (row["version_applied"] or 0) >= version


def _cut(path: Path, kept_bytes: int, scheduler: str) -> None:
    if not path.exists() or path.stat().st_size < kept_bytes:
        raise RunFailed(f"{path}: must have {kept_bytes} bytes, as when the checkpoint was made")
    with path.open("rb") as file:
        file.seek(kept_bytes)
        after = file.read().splitlines(keepends=True)
    os.truncate(path, kept_bytes)
    with path.open("ab") as file:
        file.writelines(line for line in after if _struck(line, scheduler))


def _struck(line: bytes, host: str) -> bool:
    """Whether a row tells of a fault of this host; the last one may be torn."""
    if not line.endswith(b"\n"):
        return False
    row = json.loads(line)
    return bool(row["row"] == "fault" and row["host"] == host)


def _cut_applied(path: Path, until_s: float) -> None:
    """Rates that were set after the checkpoint."""
    if not path.exists():
        return
    head, *rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [row for row in rows if float(row.partition(",")[0]) <= until_s]
    path.write_text("".join([head, *kept]), encoding="utf-8")
