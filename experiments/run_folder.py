"""The folder of a run, for one process at a time: of a new run, or of one that goes on."""

from __future__ import annotations

import fcntl
import json
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from analysis.names import flat_params
from experiments.errors import RunFailed
from experiments.files import write_json
from experiments.fingerprint import fingerprint, shaping
from experiments.schema import RunConfig, to_plain, write_config
from mlfabric.checkpoints import FOLDER, Checkpoint, Checkpoints

CONFIG, SUMMARY = "config.json", "run.json"
_PARTS, _LOCK = "parts.json", "running.lock"
_ENDED = ("finished", "invalid")
_OURS = (
    *(CONFIG, SUMMARY, "environment.json", "bubble.json", "calibration.json", "progress.json"),
    *("*.parquet", "*.jsonl", "network_*.csv", "model0.npy", "rates.bin", "clock_start", "stop"),
    *("checkpoint", "hosts", "console*.log", "evaluator.log", "failure-*.txt"),
    *(FOLDER, "records", "snapshots", "report"),
)
"""What runs write into their folders, but for the parts, which are cleared last."""

GOES_ON = "; resume=auto goes on from where it was"
"""Ends the line that tells how a run has ended, where its last moment was saved."""

Part = dict[str, Any]
"""`from_s` of the run's clock, `began` (time of day), `ended`: why, once it has."""


@dataclass
class RunFolder:
    """A run's folder that this process holds; `checkpoint` is what it goes on from, if it does."""

    path: Path
    mark: str
    checkpoint: Checkpoint | None = None
    run_id: str | None = None
    earlier: tuple[Part, ...] = ()
    part: Part = field(init=False)

    def __post_init__(self) -> None:
        from_s = 0.0 if self.checkpoint is None else self.checkpoint.elapsed_s
        began = datetime.now(UTC).isoformat(timespec="seconds")
        self.part = {"from_s": from_s, "began": began, "ended": None}
        self.write()

    @property
    def parts(self) -> list[Part]:
        """Every part of the run, this one last."""
        return [*self.earlier, self.part]

    def write(self) -> None:
        """Note whose run this is, and its parts, for whoever goes on with it."""
        told = {"fingerprint": self.mark, "mlflow_run_id": self.run_id, "parts": self.parts}
        write_json(told, self.path / _PARTS)

    def recorded(self, status: str) -> None:
        """The result is safe: of a run that has come to its end no checkpoint is kept."""
        self.write()
        if status in _ENDED:
            Checkpoints(self.path).remove()


def locked(folder: Path) -> TextIO | None:
    """The folder's lock, held until it is closed; None where another process has it."""
    lock = (folder / _LOCK).open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def holds_a_run(run_dir: Path) -> bool:
    """Whether a run has begun in this folder."""
    return any((run_dir / name).exists() for name in (CONFIG, _PARTS))


def noted(run_dir: Path) -> dict[str, Any] | None:
    """What a run's parts.json tells; None where there is none that can be read."""
    with suppress(OSError, ValueError, TypeError, AttributeError, LookupError):
        told = json.loads((run_dir / _PARTS).read_text(encoding="utf-8"))
        if told.keys() >= {"fingerprint", "mlflow_run_id"} and told["parts"][-1]["began"]:
            found: dict[str, Any] = told
            return found
    return None


def parts_of(run_dir: Path) -> int:
    """How many parts the run in this folder has, with the one under way."""
    told = noted(run_dir)
    return 1 if told is None else len(told["parts"])


def require_room(run_dir: Path, config: RunConfig, model_bytes: int) -> None:
    """Raises RunFailed where the disk has too little room for the checkpoints that are wanted.

    Of each worker, a view of the model, an update, one under way and what its trainer remembers;
    all of that twice, as the last checkpoint is kept until the next one is complete.
    """
    if config.resume == "never":
        return
    needed = 2 * (4 * config.cluster.workers + 2 * config.cluster.servers) * model_bytes
    free = shutil.disk_usage(run_dir).free
    if free < needed:
        raise RunFailed(
            f"{run_dir}: {free / 1e9:.2f} GB are free; must be {needed / 1e9:.2f} GB for"
            " checkpoints, or resume=never"
        )


def opened(config: RunConfig, run_dir: Path) -> RunFolder | None:
    """A locked folder, for a new run or the next part of one; None where that has ended.

    Raises RunFailed where it holds another run, or one that is not to be gone on with.
    """
    mark = fingerprint(json.dumps(to_plain(config)))
    if not holds_a_run(run_dir):
        write_config(config, run_dir / CONFIG)
        return RunFolder(run_dir, mark)
    told = noted(run_dir)
    if told is None:
        raise RunFailed(f"resume=auto: {run_dir} has no {_PARTS} of a run that can go on")
    _check_same(config, run_dir, told["fingerprint"] == mark)
    if _has_ended(run_dir):
        return None
    checkpoint = Checkpoints(run_dir).latest()
    if checkpoint is None:
        _clear(run_dir)
    (run_dir / SUMMARY).unlink(missing_ok=True)
    write_json(to_plain(config), run_dir / CONFIG)
    last = told["parts"][-1]
    parts = (*told["parts"][:-1], {**last, "ended": last["ended"] or "killed"})
    return RunFolder(run_dir, mark, checkpoint, told["mlflow_run_id"], parts)


def _check_same(config: RunConfig, run_dir: Path, same: bool) -> None:
    """Refuse to go on with a run of other settings, or by other code."""
    if same:
        return
    with suppress(OSError, ValueError):
        kept = json.loads((run_dir / CONFIG).read_text(encoding="utf-8"))
        asked, before = flat_params(shaping(to_plain(config))), flat_params(shaping(kept))
        for key in sorted(asked.keys() | before.keys()):
            given, wanted = asked.get(key, "none"), before.get(key, "none")
            if given != wanted:
                raise RunFailed(f"{key}={given}: must be {wanted}, as in the run in {run_dir}")
    raise RunFailed(f"resume=auto: the run in {run_dir} began with other code, packages or data")


def _has_ended(run_dir: Path) -> bool:
    with suppress(OSError, ValueError):
        told = json.loads((run_dir / SUMMARY).read_text(encoding="utf-8"))
        return told["status"] in _ENDED
    return False


def _clear(run_dir: Path) -> None:
    """The run begins anew: nothing of what it has left counts. What is not its own stays."""
    for pattern in _OURS:
        for path in run_dir.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
