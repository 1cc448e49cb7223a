"""`python -m workloads.imagenet.check FOLDER`: whether every image of a folder can be read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from workloads.base import WorkloadError
from workloads.cache import Arrays
from workloads.checking import run_check
from workloads.imagenet import index
from workloads.imagenet.loading import Order, Readers
from workloads.progress import Ticker

_AT_ONCE = 64
_SIDE = 64


def main(arguments: Sequence[str]) -> int:
    """Decode every image of the folder that is the one argument; 0 when all can be."""
    return run_check("workloads.imagenet.check", arguments, _check)


def _check(folder: Path) -> int:
    if lacks := index.missing(folder):
        raise WorkloadError(f"{folder}: must hold train/ and val/; {lacks}")
    arrays = index.build(folder, Ticker())
    unreadable = sum(_unreadable(arrays, part) for part in index.PARTS)
    counts = (len(arrays[f"{part}_labels"]) for part in index.PARTS)
    told = "{} to train on, {} to score".format(*counts)
    print(f"{folder}: {len(arrays['classes'])} classes, {told}, {unreadable} unreadable")
    return 1 if unreadable else 0


def _unreadable(arrays: Arrays, part: str) -> int:
    """Print each image of a part that cannot be read; returns how many there are."""
    many, done, total = 0, 0, len(arrays[f"{part}_labels"])
    tick, readers = Ticker(), Readers(len(os.sched_getaffinity(0)))
    for crops in readers.stream(_orders(arrays, part)):
        for why in crops.unreadable.values():
            many += 1
            print(f"unreadable image: {why}", file=sys.stderr)
        done += len(crops.pixels)
        tick(f"{part}: {done} of {total} images read")
    readers.close()
    return many


def _orders(arrays: Arrays, part: str) -> Iterator[Order]:
    found = index.Index(arrays.__getitem__, part)
    total = len(found.labels)
    for start in range(0, total, _AT_ONCE):
        numbers = range(start, min(start + _AT_ONCE, total))
        yield Order([found.place(number) for number in numbers], None, _SIDE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
