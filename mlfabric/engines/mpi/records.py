"""What a rank saw, streamed to files: rows, and copies of the model."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray


class Records:
    """Rows of one rank as JSON lines; may be used by several threads.

    With `at_once` each row is written when it is added: its rank may die. With `more` they follow
    those of the run's earlier parts.
    """

    def __init__(self, run_dir: Path, rank: int, *, at_once: bool, more: bool = False) -> None:
        path = records_path(run_dir, rank)
        path.parent.mkdir(exist_ok=True)
        mode = "a" if more else "x"
        self._file = path.open(mode, encoding="utf-8", buffering=1 if at_once else -1)
        self._lock = threading.Lock()

    def add(self, row: str, **values: Any) -> None:
        """Append a row of kind `row`."""
        line = json.dumps({"row": row, **values})
        with self._lock:
            self._file.write(line + "\n")

    def flush(self) -> int:
        """Write what is held back; how many bytes there are."""
        with self._lock:
            self._file.flush()
            return self._file.tell()

    def sync(self) -> None:
        """Return once what is written is on the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        with self._lock:
            self._file.close()


def records_path(run_dir: Path, rank: int) -> Path:
    """Where a rank's rows are."""
    return run_dir / "records" / f"rank-{rank:02d}.jsonl"


class NoRecords:
    """Keeps nothing."""

    def add(self, row: str, **values: Any) -> None:
        """Forget it."""

    def flush(self) -> int:
        """Nothing is held back."""
        return 0

    def sync(self) -> None:
        """Nothing is written."""

    def close(self) -> None:
        """Nothing is open."""


REPLICA = "replica"
"""The series of snapshots of the replica; a shard's is called by its number."""


class SnapshotFiles:
    """Writes a series of snapshots for whoever evaluates them off the clock."""

    def __init__(self, run_dir: Path, series: str, rank: int) -> None:
        self._folder = run_dir / "snapshots"
        self._folder.mkdir(exist_ok=True)
        self._index = self._folder / f"index-{series}.jsonl"
        self._series = series
        self._rank = rank  # another one may go on with the series
        before = self._index.read_text(encoding="utf-8") if self._index.exists() else ""
        self._taken = before.count("\n")

    def take(self, model: NDArray[Any], version: int, elapsed_s: float, tick: int | None) -> None:
        """Write a copy, then the line of the index that announces it."""
        name = f"{self._series}-{self._rank:02d}-{self._taken:05d}.npy"
        self._taken += 1
        save_array(self._folder / name, model)
        told = {"file": name, "version": version, "elapsed_s": elapsed_s, "tick": tick}
        with self._index.open("a", encoding="utf-8") as index:
            index.write(json.dumps(told) + "\n")


class _Writer:
    """NumPy writes to files of Python past Python, and then tells no reason where that fails."""

    def __init__(self, file: BinaryIO) -> None:
        self.write = file.write


def save_array(path: Path, values: NDArray[Any]) -> None:
    """As np.save; where the file cannot be written it is removed, and OSError says why."""
    try:
        with path.open("wb") as file:
            np.save(_Writer(file), values)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, text: str) -> None:
    """Readers see the old file or the new one, never half of it."""
    unfinished = path.with_suffix(".tmp")
    try:
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def tell_failure(run_dir: Path, rank: int, story: str) -> None:
    """Leave word of why a rank ends its run; on a full disk there is none."""
    with suppress(OSError):
        write_atomically(run_dir / f"failure-{rank}.txt", story)
