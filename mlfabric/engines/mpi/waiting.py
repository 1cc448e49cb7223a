"""Waiting for news without burning a core: sleep until a socket of MPI's has bytes to read.

MPI offers no such wait: a blocking call spins, and naps between polls cost latency and, with more
ranks than cores, most of the machine. Whatever it is, MPI over TCP reads from sockets of this
process; poll(2) on those wakes as soon as something has come, for MPI to take.
"""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

RESCAN_S = 1.0
"""How often sockets that MPI has opened since are looked for."""

NAPS = ((20, 0.001), (100, 0.004), (None, 0.01))
"""Longest waits of a rank that has nothing to send: up to so many without news, so many seconds."""

HASTY_NAP_S = 0.001

GATHER_S = 0.001
"""A message comes in many packets; waking for each would cost more than all else."""

_DESCRIPTORS = Path("/proc/self/fd")


class News:
    """Wakes at bytes on any socket of this process, at `tell`, or after a time."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._told = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll.register(self._told, select.POLLIN)
        self._watched: set[int] = set()
        self._next_scan_s = 0.0

    def tell(self) -> None:
        """Wake the waiting thread, from any other."""
        os.eventfd_write(self._told, 1)

    def wait(self, most_s: float) -> None:
        """Sleep until there may be news, at most so long."""
        if time.monotonic() >= self._next_scan_s:
            self._scan()
        for descriptor, event in self._poll.poll(most_s * 1e3):
            if descriptor == self._told:
                os.eventfd_read(self._told)
            elif event & ~select.POLLIN:  # closed, or not to be read: it would wake us for ever
                self._forget(descriptor)

    def close(self) -> None:
        """Nothing more is waited for."""
        os.close(self._told)

    def _scan(self) -> None:
        self._next_scan_s = time.monotonic() + RESCAN_S
        found = _sockets()
        for descriptor in self._watched - found:
            self._forget(descriptor)
        for descriptor in found - self._watched:
            self._poll.register(descriptor, select.POLLIN)
            self._watched.add(descriptor)

    def _forget(self, descriptor: int) -> None:
        if descriptor in self._watched:
            self._watched.remove(descriptor)
            self._poll.unregister(descriptor)


def _sockets() -> set[int]:
    found = set()
    for entry in _DESCRIPTORS.iterdir():
        try:
            if entry.readlink().name.startswith("socket:"):
                found.add(int(entry.name))
        except FileNotFoundError:  # the descriptor of the folder itself, or one just closed
            continue
    return found


class Pauses:
    """How long a rank waits between turns in which nothing moved."""

    def __init__(self, news: News) -> None:
        self._news = news
        self._quiet = 0

    def over(self) -> None:
        """Something moved."""
        self._quiet = 0

    def wait(self, *, in_haste: bool) -> None:
        """Nothing moved; `in_haste`: something is still to be sent, of which no news comes."""
        self._quiet += 1
        if self._quiet > 1:  # woken by part of a message: let more of it come
            time.sleep(GATHER_S)
        self._news.wait(HASTY_NAP_S if in_haste else self._nap_s())

    def _nap_s(self) -> float:
        return next(s for most, s in NAPS if most is None or self._quiet <= most)
