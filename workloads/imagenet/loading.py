"""Images are read, decoded and cropped ahead of their use, in processes of their own."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from workloads.imagenet.decoding import Place, center_crop, random_crop

AHEAD = 2
"""Batches asked for ahead of their use, for each process."""

UNREADABLE = (OSError, ValueError, SyntaxError, Image.DecompressionBombError)
_PR_SET_PDEATHSIG = 1


class Order(NamedTuple):
    """A batch to be made: where its images are, and the seed of each random crop (None: center)."""

    places: list[Place]
    seeds: Sequence[tuple[int, ...]] | None
    side: int


class Crops(NamedTuple):
    """A batch: `pixels` uint8[n, side, side, 3], black where an image could not be read.

    `unreadable` tells their places in the batch, and why.
    """

    pixels: NDArray[np.uint8]
    unreadable: dict[int, str]


def made(order: Order) -> Crops:
    """Carry out an order."""
    side = order.side
    pixels = np.zeros((len(order.places), side, side, 3), np.uint8)
    unreadable: dict[int, str] = {}
    for number, place in enumerate(order.places):
        try:
            data = place.read()
            if order.seeds is None:
                pixels[number] = center_crop(data, side)
            else:
                rng = np.random.default_rng(order.seeds[number])
                pixels[number] = random_crop(data, side, rng)
        except UNREADABLE as error:
            unreadable[number] = f"{place.path}: {_reason(error)}"
    return Crops(pixels, unreadable)


def _reason(error: BaseException) -> str:
    """Why an image could not be read, in a few words."""
    if isinstance(error, UnidentifiedImageError):
        return "is no image"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error) or type(error).__name__).splitlines()[0]


def stream(orders: Iterable[Order], processes: int) -> Iterator[Crops]:
    """Batches in the order in which they are asked for; with no processes they are made here."""
    if processes == 0:
        yield from map(made, orders)
        return
    queue, waiting = iter(orders), deque[Future[Crops]]()
    context = multiprocessing.get_context("spawn")  # a fork would take the sockets of MPI along
    with ProcessPoolExecutor(processes, context, _begin, (os.getpid(),)) as pool:
        try:
            while True:
                while len(waiting) < AHEAD * processes and (order := next(queue, None)) is not None:
                    waiting.append(pool.submit(made, order))
                if not waiting:
                    return
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin(parent: int) -> None:
    """End with whoever started this process, and leave Ctrl-C to it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
