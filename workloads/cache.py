"""Prepared data as a folder of .npy files that appears whole or not at all."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.base import WorkloadError

_LOCK = ".lock"
Arrays = Mapping[str, NDArray[Any]]


def publish(folder: Path, build: Callable[[], Arrays]) -> None:
    """Make `folder` hold `<name>.npy` for every array of `build()`, unless it already exists.

    Raises WorkloadError when the folder cannot be written.
    """
    publish_folder(folder, lambda staging: save_arrays(staging, build()))


def save_arrays(folder: Path, arrays: Arrays) -> None:
    """Write `<name>.npy` for every array."""
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


def publish_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Make `folder` hold what `fill(staging)` writes, unless it already exists.

    The files are written to a sibling folder that is then renamed, so a reader never sees half of
    them; of two processes that prepare at once one wins and the other's copy is removed.
    Raises WorkloadError when the folder cannot be written, or a file that is read fails.
    """
    if folder.is_dir():
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(folder.parent):
            _clear_remains(folder)
            staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
            lock = (staging / _LOCK).open("w")
            fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        raise WorkloadError(
            f"cannot write prepared data to {folder}: {error.strerror}; "
            "cache_dir must be a folder that can be written"
        ) from error
    try:
        fill(staging)
        (staging / _LOCK).unlink()
        _rename(staging, folder)
    except OSError as error:
        where = error.filename or folder
        raise WorkloadError(f"{where}: {error.strerror}, while data were prepared") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        lock.close()


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold the folder itself: a place to work in is not seen between its creation and its lock."""
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _clear_remains(folder: Path) -> None:
    """Remove what processes that were killed have left; whoever is at work holds a lock."""
    for remains in folder.parent.glob(f".{folder.name}-*"):
        with suppress(OSError), (remains / _LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(remains, ignore_errors=True)


def mark_of(paths: Iterable[Path]) -> str:
    """What tells these files from others, or from themselves once they have changed: 16 digits.

    Raises OSError where one cannot be looked at.
    """
    digest = hashlib.sha256()
    for path in paths:
        found = path.stat(follow_symlinks=path.exists())  # of a link, what it leads to
        digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


class GrowingArray:
    """A one-dimensional .npy file that is written piece by piece; a context manager."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self._path = path
        self._dtype = dtype
        self._size = 0

    def __enter__(self) -> GrowingArray:
        self._file = self._path.open("wb")
        self._write_header()
        return self

    def append(self, values: NDArray[Any]) -> None:
        """Add values of the array's dtype."""
        self._file.write(np.ascontiguousarray(values, self._dtype).data)
        self._size += len(values)

    def __exit__(self, *raised: object) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        """NumPy leaves room in it for an axis that grows."""
        told = {"descr": self._dtype.str, "fortran_order": False, "shape": (self._size,)}
        np.lib.format.write_array_header_1_0(self._file, told)


def _rename(staging: Path, folder: Path) -> None:
    staging.chmod(0o755)
    try:
        os.rename(staging, folder)
    except OSError:
        if not folder.is_dir():
            raise


def open_array(folder: Path, name: str) -> NDArray[Any]:
    """Memory-map `<name>.npy` of a prepared folder, read only.

    Raises WorkloadError when it is not there.
    """
    path = folder / f"{name}.npy"
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (FileNotFoundError, ValueError) as error:
        raise WorkloadError(
            f"{path} is missing or damaged: remove the folder {folder}, it is then prepared afresh"
        ) from error
    return array
