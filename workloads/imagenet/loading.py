"""Images are read, decoded and cropped ahead of their use, in processes of their own."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import UnidentifiedImageError

from workloads.base import WorkloadError
from workloads.imagenet.decoding import UNREADABLE, Place, center_crop, random_crop

AHEAD = 2
"""Batches asked for ahead of their use, for each process."""

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


class Readers:
    """Processes that carry orders out; with none, orders are carried out where they are asked."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None

    def start(self) -> None:
        """Start them and wait until they are there, off anyone's clock."""
        if self._processes and self._pool is None:
            context = multiprocessing.get_context("spawn")  # a fork would take MPI's sockets along
            self._pool = ProcessPoolExecutor(self._processes, context, _begin, (os.getpid(),))
            nothing = Order([], None, 1)
            list(self._pool.map(made, [nothing] * self._processes))

    def stream(self, orders: Iterable[Order]) -> Iterator[Crops]:
        """Batches in the order in which they are asked for.

        Raises WorkloadError where one of the processes was killed.
        """
        self.start()
        if self._pool is None:
            yield from map(made, orders)
            return
        queue, waiting = iter(orders), deque[Future[Crops]]()
        try:
            while True:
                room = AHEAD * self._processes - len(waiting)
                waiting.extend(self._pool.submit(made, one) for one in islice(queue, room))
                if not waiting:
                    return
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise WorkloadError("a process that reads images was killed") from None
        finally:
            for each in waiting:
                each.cancel()

    def close(self) -> None:
        """End them."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _begin(parent: int) -> None:
    """End with whoever started this process, and leave Ctrl-C to it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
