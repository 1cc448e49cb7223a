"""A run's checkpoints on disk: each a folder of parts that counts once it is marked complete.

checkpoints/000000007/<part>.pickle   what one host, or the virtual clock, needs to go on
checkpoints/000000007/complete.json   written last; until then the checkpoint before counts
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlfabric.errors import CheckpointDamaged

FOLDER = "checkpoints"

REQUEST = "checkpoint"
"""A file of this name in the run's folder asks for a checkpoint; it goes once that was tried."""

_NUMBERS_A_PART = 1_000_000
"""Checkpoints of each part of a run have so many numbers of their own [ours]."""

_MARK = "complete.json"

WAY_OUT = f"without the folder '{FOLDER}' the run begins anew"


def first_of_part(part: int) -> int:
    """The number of the first checkpoint that a part of a run, from 1, can have."""
    return _NUMBERS_A_PART * part


def last_of_part(part: int) -> int:
    """The number that is kept for the checkpoint that is made when the scheduler is lost."""
    return first_of_part(part + 1) - 1


_NOT_AS_SAVED = (
    *(pickle.UnpicklingError, EOFError, struct.error),
    *(ValueError, TypeError, LookupError, AttributeError),
)
"""What bytes that mean something else lead to; a lack of memory or of a module does not count."""

LEAST_SPACING = 10.0
"""Between two checkpoints at intervals, at least this many times what one takes [ours]."""


@dataclass(frozen=True)
class Checkpoint:
    """A complete one: its number, its folder, the time of the run's clock, in seconds, and how many
    bytes of each host's records were there then."""

    number: int
    elapsed_s: float
    folder: Path
    records: Mapping[str, int]

    def part(self, name: str) -> Any:
        """What was saved under this name; it is unpickled, so the folder must be one's own.

        Raises CheckpointDamaged where that cannot be done.
        """
        return _unpickled(_part(self.folder, name))

    def data(self, name: str) -> bytes:
        """The bytes of a part."""
        return _part(self.folder, name).read_bytes()


class Checkpoints:
    """Those of the run in `run_dir`. What cannot be written raises OSError, and harms no other."""

    def __init__(self, run_dir: Path) -> None:
        self._folder = run_dir / FOLDER

    def write(self, number: int, name: str, state: Any) -> None:
        """Add a part to a checkpoint, pickled; it is there whole or not at all."""
        self.write_data(number, name, pickle.dumps(state, pickle.HIGHEST_PROTOCOL))

    def write_data(self, number: int, name: str, data: bytes) -> None:
        """Add a part that is bytes already."""
        folder = self._of(number)
        folder.mkdir(parents=True, exist_ok=True)
        _write(_part(folder, name), data)

    def parts(self, number: int) -> set[str]:
        """Names of the parts that a checkpoint has so far."""
        return {path.stem for path in self._of(number).glob("*.pickle")}

    def complete(
        self, number: int, elapsed_s: float, records: Mapping[str, int] | None = None
    ) -> None:
        """All its parts are there: from now on it counts, and no other is kept."""
        folder = self._of(number)
        sizes = {name: _part(folder, name).stat().st_size for name in sorted(self.parts(number))}
        told = {"elapsed_s": elapsed_s, "records": dict(records or {}), "bytes": sizes}
        _write(folder / _MARK, json.dumps(told).encode())
        for other in self._all():
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)

    def part(self, number: int, name: str) -> Any:
        """A part of a checkpoint that need not be complete; raises CheckpointDamaged."""
        return _unpickled(_part(self._of(number), name))

    def discard(self, number: int) -> None:
        """It will not be complete: its parts only take room."""
        shutil.rmtree(self._of(number), ignore_errors=True)

    def latest(self) -> Checkpoint | None:
        """The last one that is complete; raises CheckpointDamaged where it is not as it was."""
        for folder in reversed(self._all()):
            if (folder / _MARK).exists():
                return _checked(folder)
        return None

    def next_number(self) -> int:
        """One that no checkpoint has had, complete or not."""
        numbers = [int(folder.name) for folder in self._all()]
        return max(numbers, default=0) + 1

    def remove(self) -> None:
        """Keep none: the run has ended."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _of(self, number: int) -> Path:
        return self._folder / f"{number:09d}"

    def _all(self) -> list[Path]:
        found = (path for path in self._folder.glob("*") if path.name.isdigit())
        return sorted(found, key=lambda path: int(path.name))


def _checked(folder: Path) -> Checkpoint:
    """What is marked complete, if all its parts have the sizes that they had then."""
    mark = folder / _MARK
    try:
        told = json.loads(mark.read_text(encoding="utf-8"))
        sizes: dict[str, int] = dict(told["bytes"])
        elapsed_s, records = float(told["elapsed_s"]), dict(told["records"])
    except (ValueError, KeyError, TypeError):
        raise CheckpointDamaged(f"{mark}: is damaged; {WAY_OUT}") from None
    for name, size in sizes.items():
        path = _part(folder, name)
        if not path.exists():
            raise CheckpointDamaged(f"{path}: is missing; {WAY_OUT}")
        if (there := path.stat().st_size) != size:
            raise CheckpointDamaged(f"{path}: has {there} bytes; must have {size}; {WAY_OUT}")
    return Checkpoint(int(folder.name), elapsed_s, folder, records)


@contextmanager
def whole() -> Iterator[None]:
    """What is unpickled in the block is as it was saved; raises CheckpointDamaged if it is not."""
    try:
        yield
    except _NOT_AS_SAVED as error:
        raise CheckpointDamaged(f"cannot be read ({type(error).__name__}: {error})") from error


def _unpickled(path: Path) -> Any:
    try:
        with whole():
            return pickle.loads(path.read_bytes())
    except CheckpointDamaged as error:
        raise CheckpointDamaged(f"{path}: {error}; {WAY_OUT}") from error


def _part(folder: Path, name: str) -> Path:
    return folder / f"{name}.pickle"


def _write(path: Path, data: bytes) -> None:
    """On the disk before it has its name: a machine that loses power leaves no half of it."""
    partial = path.with_suffix(".partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
