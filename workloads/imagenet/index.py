"""Which images there are, and of which class: folders or tar shards, read once to an index.

`train/` and `val/` of a folder hold a folder of images for each class, or tar files whose members
are named CLASS/FILE, or that are named CLASS.tar. Nothing is unpacked: an image of a shard is read
where it lies.
"""

from __future__ import annotations

import os
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workloads.base import WorkloadError
from workloads.cache import Arrays
from workloads.imagenet.decoding import Place

PARTS = {"train": "train", "heldout": "val"}
ENDINGS = (".jpeg", ".jpg", ".png", ".webp", ".bmp")
_SHOWN = 3

Tell = Callable[[str], None]


class Entry(NamedTuple):
    """One image: its class, and where it is (see `Place`)."""

    label: str
    path: str
    offset: int = 0
    size: int = -1


class Index:
    """One part of the index that `build` makes: places and labels of its images."""

    def __init__(self, array: Callable[[str], NDArray[Any]], part: str) -> None:
        """`array(name)` is one of the arrays."""
        self._paths, self._ends = array(f"{part}_paths"), array(f"{part}_ends")
        self._offsets, self._sizes = array(f"{part}_offsets"), array(f"{part}_sizes")
        self.labels = array(f"{part}_labels")

    def place(self, number: int) -> Place:
        """Where image `number` is."""
        begin = int(self._ends[number - 1]) if number else 0
        path = os.fsdecode(self._paths[begin : int(self._ends[number])].tobytes())
        return Place(path, int(self._offsets[number]), int(self._sizes[number]))


def missing(folder: Path) -> str | None:
    """What a folder lacks to be ImageNet's, in a few words; None where it looks like one."""
    for part in PARTS.values():
        inside = folder / part
        if not inside.is_dir():
            return f"{inside} is no folder"
        with os.scandir(inside) as found:
            if not any(one.is_dir() or one.name.endswith(".tar") for one in found):
                return f"{inside} holds neither class folders nor tar files"
    return None


def parts_of(folder: Path) -> list[Path]:
    """Class folders and shards, which change when images come or go."""
    return sorted(path for part in PARTS.values() for path in (folder / part).iterdir())


def build(folder: Path, tell: Tell) -> Arrays:
    """Look at every file's name: arrays of `Index`; raises WorkloadError naming what is wrong."""
    entries = {part: sorted(_entries(folder / name, tell)) for part, name in PARTS.items()}
    for part, name in PARTS.items():
        if not entries[part]:
            endings = ", ".join(ENDINGS)
            raise WorkloadError(f"{folder / name}: holds no image ({endings})")
    classes = sorted({entry.label for entry in entries["train"]})
    if strangers := sorted({entry.label for entry in entries["heldout"]} - set(classes)):
        raise WorkloadError(
            f"{folder / PARTS['heldout']}: class {strangers[0]} has no images in"
            f" {folder / PARTS['train']}"
        )
    numbers = {name: number for number, name in enumerate(classes)}
    arrays: dict[str, np.ndarray] = {"classes": np.array(classes)}
    for part, found in entries.items():
        places = [os.fsencode(entry.path) for entry in found]
        arrays |= {
            f"{part}_paths": np.frombuffer(b"".join(places), np.uint8),
            f"{part}_ends": np.cumsum([len(place) for place in places]),
            f"{part}_offsets": np.array([entry.offset for entry in found], np.int64),
            f"{part}_sizes": np.array([entry.size for entry in found], np.int64),
            f"{part}_labels": np.array([numbers[entry.label] for entry in found], np.int64),
        }
    return arrays


def _entries(folder: Path, tell: Tell) -> Iterator[Entry]:
    with os.scandir(folder) as found:
        inside = sorted(found, key=lambda one: one.name)
    for one in inside:
        tell(f"{folder.name}: looking at {one.name}")
        if one.is_dir():
            found_any = False
            for entry in _of_class(Path(one.path)):
                found_any = True
                yield entry
            if not found_any:
                told = "a class folder without images, no class"
                print(f"{one.path}: {told}", file=sys.stderr, flush=True)
        elif one.name.endswith(".tar"):
            yield from _of_shard(Path(one.path))


def _of_class(folder: Path) -> Iterator[Entry]:
    with os.scandir(folder) as found:
        for one in found:
            if one.name.lower().endswith(ENDINGS) and one.is_file():
                yield Entry(folder.name, one.path)


def _of_shard(path: Path) -> Iterator[Entry]:
    try:
        with tarfile.open(path, "r:") as shard:
            for member in shard:
                place = PurePosixPath(member.name)
                if place.is_absolute() or ".." in place.parts:
                    raise WorkloadError(
                        f"{path}: member {member.name} is outside of its folder; refused"
                    )
                if not member.isfile() or not member.name.lower().endswith(ENDINGS):
                    continue
                label = place.parent.name or path.stem
                yield Entry(label, str(path), member.offset_data, member.size)
            _check_end(path, shard.offset)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise WorkloadError(f"{path}: cannot be read as a tar file: {error}") from error


def _check_end(path: Path, offset: int) -> None:
    """A block of zeros ends an archive; tarfile takes a damaged header for its end, too."""
    with path.open("rb") as file:
        file.seek(offset)
        block = file.read(tarfile.BLOCKSIZE)
    if len(block) < tarfile.BLOCKSIZE or any(block):
        raise WorkloadError(f"{path}: damaged or cut off at byte {offset}")
