"""Reservations that can be taken back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlfabric.compiled import inner
from mlfabric.planning.kernels.paths import Floats, Ints, Net, Scratch, take


class Undo(NamedTuple):
    """Profiles as they were, newest last: `top` holds how many records and entries there are."""

    row: Ints
    size: Ints
    times: Floats
    rates: Floats
    top: Ints


@inner
def new_undo(records: int, entries: int) -> Undo:
    return Undo(
        np.empty(records, np.int64),
        np.empty(records, np.int64),
        np.empty(entries),
        np.empty(entries),
        np.zeros(2, np.int64),
    )


@inner
def push(net: Net, s: Scratch, m: int, undo: Undo) -> bool:
    """Remember the profiles of a path."""
    for i in range(m):
        row = s.rows[i]
        size = net.length[row]
        records, entries = undo.top[0], undo.top[1]
        if records == len(undo.row) or entries + size > len(undo.times):
            return False
        undo.row[records], undo.size[records] = row, size
        for i in range(size):
            undo.times[entries + i] = net.times[row, i]
            undo.rates[entries + i] = net.rates[row, i]
        undo.top[0], undo.top[1] = records + 1, entries + size
    return True


@inner
def rewind(net: Net, undo: Undo, records: int) -> None:
    """Put profiles back to what they were when there were this many records."""
    while undo.top[0] > records:
        undo.top[0] -= 1
        row, size = undo.row[undo.top[0]], undo.size[undo.top[0]]
        undo.top[1] -= size
        start = undo.top[1]
        for i in range(size):
            net.times[row, i], net.rates[row, i] = undo.times[start + i], undo.rates[start + i]
        net.length[row] = size


@inner
def book(net: Net, s: Scratch, m: int, k: int, undo: Undo) -> bool:
    return push(net, s, m, undo) and take(net, s, m, k)
