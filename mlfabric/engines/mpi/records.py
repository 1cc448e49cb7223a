"""What a rank saw, streamed to files: rows, and copies of the model."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Records:
    """Rows of one rank as JSON lines; may be used by several threads.

    With `at_once` each row is written when it is added: its rank may die.
    """

    def __init__(self, run_dir: Path, rank: int, *, at_once: bool) -> None:
        folder = run_dir / "records"
        folder.mkdir(exist_ok=True)
        path = folder / f"rank-{rank:02d}.jsonl"
        self._file = path.open("x", encoding="utf-8", buffering=1 if at_once else -1)
        self._lock = threading.Lock()

    def add(self, row: str, **values: Any) -> None:
        """Append a row of kind `row`."""
        line = json.dumps({"row": row, **values})
        with self._lock:
            self._file.write(line + "\n")

    def flush(self) -> None:
        with self._lock:
            self._file.flush()

    def close(self) -> None:
        with self._lock:
            self._file.close()


class NoRecords:
    """Keeps nothing."""

    def add(self, row: str, **values: Any) -> None:
        """Forget it."""

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is open."""


REPLICA = "replica"
"""The series of snapshots of the replica; a shard's is called by its number."""


class SnapshotFiles:
    """Writes a series of snapshots for whoever evaluates them off the clock."""

    def __init__(self, run_dir: Path, series: str, rank: int) -> None:
        self._folder = run_dir / "snapshots"
        self._folder.mkdir(exist_ok=True)
        self._series = series
        self._rank = rank  # another one may go on with the series
        self._taken = 0

    def take(self, model: NDArray[Any], version: int, elapsed_s: float, tick: int | None) -> None:
        """Write a copy, then the line of the index that announces it."""
        name = f"{self._series}-{self._rank:02d}-{self._taken:05d}.npy"
        self._taken += 1
        np.save(self._folder / name, model)
        told = {"file": name, "version": version, "elapsed_s": elapsed_s, "tick": tick}
        with (self._folder / f"index-{self._series}.jsonl").open("a", encoding="utf-8") as index:
            index.write(json.dumps(told) + "\n")


def write_atomically(path: Path, text: str) -> None:
    """Readers see the old file or the new one, never half of it."""
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)
