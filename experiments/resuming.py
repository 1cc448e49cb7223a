"""`resume=auto` in a new folder: the last interrupted run of the same settings moves there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from experiments.errors import RunFailed
from experiments.fingerprint import LABELS, fingerprint
from experiments.paths import RESULTS
from experiments.run_folder import CONFIG, RunFolder, holds_a_run, locked, noted, opened
from experiments.schema import RunConfig, to_plain
from mlfabric.checkpoints import FOLDER
from mlfabric.errors import CheckpointDamaged

_OF_HYDRA = ".hydra"
_DEPTH = 5
"""Runs lie at most so deep among the results: date, time, sweep, job."""


@contextmanager
def taken(config: RunConfig, run_dir: Path) -> Iterator[RunFolder | None]:
    """Hold the run's folder in the block; `resume=auto` goes on with what was interrupted.

    That is the run in this folder, or else the last one of these settings among the results, which
    is moved here. None: it has ended before. Raises RunFailed where the folder holds another run,
    or one that is under way, or cannot be used.
    """
    if config.resume == "never" and holds_a_run(run_dir):
        raise RunFailed(f"{run_dir} already holds a run")
    with _lock_of(config, run_dir):
        try:
            folder = opened(config, run_dir)
        except (OSError, CheckpointDamaged) as error:
            raise RunFailed(str(error)) from None
        yield folder


def _lock_of(config: RunConfig, run_dir: Path) -> TextIO:
    """The lock of the folder, into which a run may have moved."""
    try:
        lock = _moved_here(config, run_dir) if config.resume == "auto" else None
        lock = lock or locked(run_dir)
    except OSError as error:
        raise RunFailed(str(error)) from None
    if lock is None:
        raise RunFailed(f"{run_dir}: another process carries out the run in it")
    return lock


def _moved_here(config: RunConfig, run_dir: Path) -> TextIO | None:
    """Where the folder holds nothing yet, move the last interrupted run of these settings here."""
    if any(path.name != _OF_HYDRA for path in run_dir.iterdir()):
        return None
    mark = fingerprint(json.dumps(to_plain(config)))
    for found in _interrupted(config, mark, run_dir):
        with suppress(OSError):  # another process has been faster
            lock = locked(found)
            if lock is not None:
                _move(found, run_dir)
                print(f"goes on with the run of {found}", flush=True)
                return lock
    return None


def _interrupted(config: RunConfig, mark: str, run_dir: Path) -> list[Path]:
    """Folders of runs that have a checkpoint and can be renamed, the latest first."""
    found: dict[Path, float] = {}
    for folder in _with_checkpoints(RESULTS / "runs"):
        told = noted(folder)
        if told is None or told["fingerprint"] != mark:
            continue
        with suppress(OSError, ValueError):
            kept = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
            labels = [(kept[key], to_plain(config)[key]) for key in LABELS if key != "resume"]
            device = folder.stat().st_dev == run_dir.stat().st_dev
            if device and all(before == asked for before, asked in labels):
                found[folder] = (folder / FOLDER).stat().st_mtime
    return sorted(found, key=found.__getitem__, reverse=True)


def _with_checkpoints(top: Path) -> Iterator[Path]:
    for name, folders, files in os.walk(top):
        folder = Path(name)
        if FOLDER in folders:
            yield folder
        if CONFIG in files or len(folder.relative_to(top).parts) >= _DEPTH:
            folders.clear()


def _move(found: Path, run_dir: Path) -> None:
    """At each moment the run is whole, under the one name or the other."""
    notes = run_dir / _OF_HYDRA
    if notes.exists():
        shutil.rmtree(found / _OF_HYDRA, ignore_errors=True)
        notes.rename(found / _OF_HYDRA)
    run_dir.rmdir()
    found.rename(run_dir)
