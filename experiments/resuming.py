"""The folder of a run, for one process at a time: of a new run, or of one that goes on."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from experiments.errors import RunFailed
from experiments.files import write_json
from experiments.fingerprint import LABELS, fingerprint
from experiments.paths import RESULTS
from experiments.schema import RunConfig, to_plain, write_config
from mlfabric.checkpoints import FOLDER, Checkpoint, Checkpoints

CONFIG, SUMMARY = "config.json", "run.json"
_PARTS, _LOCK = "parts.json", "running.lock"
_OF_HYDRA = ".hydra"
_ENDED = ("finished", "invalid")

Part = dict[str, Any]
"""`from_s` of the run's clock, `began` (time of day), `ended`: why, once it has."""


@dataclass
class RunFolder:
    """A run's folder that this process holds; `checkpoint` is what it goes on from, if it does."""

    path: Path
    checkpoint: Checkpoint | None = None
    run_id: str | None = None
    earlier: tuple[Part, ...] = ()

    @property
    def parts(self) -> list[Part]:
        """Every part of the run, this one last."""
        return [*self.earlier, self._part]

    def __post_init__(self) -> None:
        from_s = 0.0 if self.checkpoint is None else self.checkpoint.elapsed_s
        began = datetime.now(UTC).isoformat(timespec="seconds")
        self._part: Part = {"from_s": from_s, "began": began, "ended": None}

    def begin(self, mark: str, run_id: str | None) -> None:
        """Note whose run this is, for whoever goes on with it."""
        self.run_id = run_id
        self._mark = mark
        self._write()

    def end(self, status: str, reason: str | None) -> None:
        """Note how this part has ended; of a run that has come to its end no checkpoint is kept."""
        self._part["ended"] = reason or status
        if hasattr(self, "_mark"):
            self._write()
        if status in _ENDED:
            Checkpoints(self.path).remove()

    def _write(self) -> None:
        told = {"fingerprint": self._mark, "mlflow_run_id": self.run_id, "parts": self.parts}
        write_json(told, self.path / _PARTS)


@contextmanager
def taken(config: RunConfig, run_dir: Path) -> Iterator[RunFolder]:
    """Hold the run's folder in the block; `resume=auto` goes on with what was interrupted.

    That is the run in this folder, or else the last one of these settings among the results, which
    is moved here. Raises RunFailed where the folder holds another run, or one that is under way.
    """
    goes_on = config.resume == "auto"
    lock = _moved_here(config, run_dir) if goes_on else None
    lock = lock or _locked(run_dir)
    if lock is None:
        raise RunFailed(f"{run_dir}: another process carries out the run in it")
    with lock:
        yield _opened(config, run_dir, goes_on=goes_on)
        (run_dir / _LOCK).unlink(missing_ok=True)


def has_ended_before(config: RunConfig, run_dir: Path) -> bool:
    """Whether nothing is left to do; raises RunFailed where another run has ended here."""
    told = _told(run_dir)
    if config.resume == "never" or told is None or not _has_ended(run_dir):
        return False
    _check_same(config, run_dir, told["fingerprint"])
    return True


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


def parts_of(run_dir: Path) -> int:
    """How many parts the run in this folder has, with the one under way."""
    told = _told(run_dir)
    return 1 if told is None else len(told["parts"])


def _opened(config: RunConfig, run_dir: Path, *, goes_on: bool) -> RunFolder:
    try:
        write_config(config, run_dir / CONFIG)
        return RunFolder(run_dir)
    except FileExistsError:
        if not goes_on:
            raise RunFailed(f"{run_dir} already holds a run") from None
    told = _told(run_dir)
    if told is None:
        raise RunFailed(f"resume=auto: {run_dir} has a {CONFIG}, but not of a run that can go on")
    _check_same(config, run_dir, told["fingerprint"])
    checkpoint = Checkpoints(run_dir).latest()
    if checkpoint is None:
        _clear(run_dir)
    for name in (SUMMARY, CONFIG):
        (run_dir / name).unlink(missing_ok=True)
    write_config(config, run_dir / CONFIG)
    last = told["parts"][-1]
    parts = (*told["parts"][:-1], {**last, "ended": last["ended"] or "killed"})
    return RunFolder(run_dir, checkpoint, told["mlflow_run_id"], parts)


def _check_same(config: RunConfig, run_dir: Path, mark: str) -> None:
    """Refuse to go on with a run of other settings, or by other code."""
    settings = to_plain(config)
    if fingerprint(json.dumps(settings)) == mark:
        return
    before = json.loads((run_dir / CONFIG).read_text(encoding="utf-8"))
    other = next((f"{k}={before.get(k)}" for k in settings if _differs(k, settings, before)), None)
    what = f"other settings: {other}" if other else "the code, or data, that it had when it began"
    raise RunFailed(f"resume=auto: {run_dir} holds a run that needs {what}")


def _differs(key: str, settings: dict[str, Any], before: dict[str, Any]) -> bool:
    return key not in LABELS and settings[key] != before.get(key)


def _moved_here(config: RunConfig, run_dir: Path) -> TextIO | None:
    """Where the folder has no run yet, move the last interrupted one of these settings here."""
    if (run_dir / CONFIG).exists() or _others_than_hydras(run_dir):
        return None
    mark = fingerprint(json.dumps(to_plain(config)))
    for found in _interrupted(mark):
        lock = _locked(found)
        if lock is not None:
            print(f"goes on with the run of {found}", flush=True)
            _move(found, run_dir)
            return lock
    return None


def _interrupted(mark: str) -> list[Path]:
    """Folders of runs that have a checkpoint, the latest first."""
    marked = (RESULTS / "runs").glob(f"**/{FOLDER}/*/complete.json")
    folders = {path.parent.parent.parent: path.stat().st_mtime for path in marked}
    chosen = [folder for folder in folders if (_told(folder) or {}).get("fingerprint") == mark]
    return sorted(chosen, key=folders.__getitem__, reverse=True)


def _move(found: Path, run_dir: Path) -> None:
    """At each moment the run is whole, under the one name or the other."""
    notes = run_dir / _OF_HYDRA
    if notes.exists():
        shutil.rmtree(found / _OF_HYDRA, ignore_errors=True)
        shutil.move(notes, found / _OF_HYDRA)
    run_dir.rmdir()
    shutil.move(found, run_dir)


def _others_than_hydras(run_dir: Path) -> bool:
    return any(path.name != _OF_HYDRA for path in run_dir.iterdir())


def _clear(run_dir: Path) -> None:
    """Nothing of what the run has left counts: it begins anew."""
    for path in run_dir.iterdir():
        if path.name in (_OF_HYDRA, _LOCK):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _locked(folder: Path) -> TextIO | None:
    """The folder's lock, held until it is closed; None where another process has it."""
    lock = (folder / _LOCK).open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def _has_ended(run_dir: Path) -> bool:
    with suppress(OSError, ValueError):
        told = json.loads((run_dir / SUMMARY).read_text(encoding="utf-8"))
        return told["status"] in _ENDED
    return False


def _told(run_dir: Path) -> dict[str, Any] | None:
    with suppress(OSError, ValueError):
        told: dict[str, Any] = json.loads((run_dir / _PARTS).read_text(encoding="utf-8"))
        return told
    return None
