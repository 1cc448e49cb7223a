"""The values of an update or a model, dense or sparse, and their form on the wire."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlfabric.errors import ProtocolError

INDEX = np.dtype(np.int32)
_MODEL_DTYPES = {"float32": np.dtype(np.float32), "int32": np.dtype(np.int32)}
_COUNT_DTYPES = tuple(np.dtype(d) for d in (np.int8, np.int16, np.int32))
_WIRE_DTYPES = {d.name: d for d in (*_COUNT_DTYPES, _MODEL_DTYPES["float32"])}
_FURTHER = 255
_WIDE = np.dtype(np.int32)

STRIPE = 64
"""Neighboring entries that stay in one piece of a sparse vector that is cut up [ours]."""


@dataclass(frozen=True)
class Payload:
    """A vector of `size` entries.

    Dense: `indices` is None and `values` has shape (size,). Sparse: `indices` int32 (nnz,),
    strictly increasing, with `values` (nnz,). Values are float32 or int32.
    """

    size: int
    indices: NDArray[np.int32] | None
    values: NDArray[Any]

    def add_to(self, vector: NDArray[Any]) -> None:
        """vector += self, in place; `vector` has shape (size,)."""
        if self.indices is None:
            vector += self.values
        else:
            vector[self.indices] += self.values

    def subtract_from(self, vector: NDArray[Any]) -> None:
        """vector -= self, in place."""
        if self.indices is None:
            vector -= self.values
        else:
            vector[self.indices] -= self.values

    def overwrite(self, vector: NDArray[Any]) -> None:
        """Set the entries that this payload holds."""
        if self.indices is None:
            np.copyto(vector, self.values)
        else:
            vector[self.indices] = self.values

    def norm(self) -> float:
        """L2 norm of float values, L1 norm of counts (L2 [paper], L1 [ours])."""
        if not len(self.values):
            return 0.0
        if self.values.dtype.kind == "i":
            return float(np.abs(self.values, dtype=np.int64).sum())
        return float(np.linalg.norm(self.values))

    def scaled(self, factor: float) -> Payload:
        """This payload times `factor`, in the same dtype; itself when the factor is 1."""
        if factor == 1.0:
            return self
        return Payload(self.size, self.indices, self.values * self.values.dtype.type(factor))


def dense(values: NDArray[Any]) -> Payload:
    """A payload that holds every entry."""
    return Payload(len(values), None, values)


def distance(one: NDArray[Any], other: NDArray[Any]) -> float:
    """The norm of the difference of two vectors: L2 of floats, L1 of counts."""
    return dense(one - other).norm()


def gather(vector: NDArray[Any], touched: NDArray[np.bool_]) -> Payload:
    """The entries of `vector` where `touched`; a copy of all where those might take more bytes."""
    size, item = len(vector), vector.itemsize
    if np.count_nonzero(touched) * (1 + item) >= size * item:
        return dense(vector.copy())
    indices = np.flatnonzero(touched).astype(INDEX)
    return Payload(size, indices, vector[indices])


def total(payloads: Sequence[Payload]) -> Payload:
    """The sum of one or more payloads of one size; stays sparse while that is smaller."""
    if len(payloads) == 1:
        return payloads[0]
    size, dtype = payloads[0].size, payloads[0].values.dtype
    sums = np.zeros(size, dtype)
    for payload in payloads:
        payload.add_to(sums)
    sparse = [p.indices for p in payloads if p.indices is not None]
    if len(sparse) < len(payloads):
        return dense(sums)
    return gather(sums, touched_by(size, sparse))


def touched_by(size: int, index_sets: Iterable[NDArray[np.int32]]) -> NDArray[np.bool_]:
    """Which of `size` entries are in any of the sets."""
    touched = np.zeros(size, np.bool_)
    for indices in index_sets:
        touched[indices] = True
    return touched


def even_cuts(begin: int, end: int, parts: int) -> list[tuple[int, int]]:
    """Parts (begin, end) that differ by one entry at most; there may be empty ones."""
    places = [begin + (end - begin) * part // parts for part in range(parts + 1)]
    return list(itertools.pairwise(places))


def split(payload: Payload, cuts: Sequence[tuple[int, int]]) -> list[Payload]:
    """The entries of each part (begin, end), numbered afresh; dense ones share their memory."""
    if payload.indices is None:
        return [dense(payload.values[begin:end]) for begin, end in cuts]
    found = []
    for begin, end in cuts:
        first, last = np.searchsorted(payload.indices, (begin, end))
        indices = payload.indices[first:last] - INDEX.type(begin)
        found.append(Payload(end - begin, indices, payload.values[first:last]))
    return found


def to_wire(payload: Payload) -> tuple[dict[str, Any], NDArray[np.uint8]]:
    """(description, bytes); the bytes of a dense payload are its own memory, not a copy.

    Sparse: distances between indices as bytes, 255 meaning "255 further, and no entry yet"; then
    values; of counts most in a narrow integer type, whose smallest value stands for those that it
    cannot hold: these follow in int32.
    """
    values = payload.values
    description = {"size": payload.size, "dtype": values.dtype.name, "nnz": None}
    if payload.indices is None:
        return description, np.ascontiguousarray(values).view(np.uint8)
    steps = _steps(payload.indices)
    narrow, wide = _narrowed(values)
    description |= {"nnz": len(values), "steps": len(steps), "as": narrow.dtype.name}
    description["wide"] = len(wide)
    return description, np.concatenate((steps, narrow.view(np.uint8), wide.view(np.uint8)))


def wire_size(payload: Payload) -> int:
    """Length of the bytes that `to_wire` makes, without making them."""
    if payload.indices is None:
        return payload.values.nbytes
    further = np.diff(payload.indices, prepend=INDEX.type(0)) // _FURTHER
    narrow, wide = _narrowed(payload.values)
    return len(payload.values) + int(further.sum()) + narrow.nbytes + wide.nbytes


def wire_bytes(description: dict[str, Any]) -> int:
    """Length of the bytes that a description announces; raises ProtocolError for a bad one."""
    try:
        if description["nnz"] is None:
            return int(description["size"]) * _MODEL_DTYPES[description["dtype"]].itemsize
        item = _WIRE_DTYPES[description["as"]].itemsize
        wide = int(description["wide"]) * _WIDE.itemsize
        return int(description["steps"]) + int(description["nnz"]) * item + wide
    except (KeyError, TypeError) as error:
        raise ProtocolError(f"payload: {error} in {description}") from None


def from_wire(description: dict[str, Any], data: NDArray[np.uint8]) -> Payload:
    """The payload whose bytes are `data`; a dense one shares their memory."""
    if len(data) != wire_bytes(description):
        raise ProtocolError(f"payload: {len(data)} bytes where {wire_bytes(description)} are due")
    size, dtype = description["size"], _MODEL_DTYPES[description["dtype"]]
    if description["nnz"] is None:
        return Payload(size, None, data.view(dtype))
    steps, rest = data[: description["steps"]], data[description["steps"] :].copy()
    indices = (np.cumsum(steps, dtype=np.int64)[steps != _FURTHER]).astype(INDEX)
    if len(indices) != description["nnz"] or (len(indices) and indices[-1] >= size):
        raise ProtocolError(f"payload: indices do not fit {description}")
    narrow = _WIRE_DTYPES[description["as"]]
    cut = description["nnz"] * narrow.itemsize
    values = rest[:cut].view(narrow).astype(dtype)
    if description["wide"]:
        escaped = values == _reach(narrow)[0]
        if np.count_nonzero(escaped) != description["wide"]:
            raise ProtocolError(f"payload: wide values do not fit {description}")
        values[escaped] = rest[cut:].copy().view(_WIDE)
    return Payload(size, indices, values)


def _steps(indices: NDArray[np.int32]) -> NDArray[np.uint8]:
    gaps = np.diff(indices, prepend=INDEX.type(0))
    further = gaps // _FURTHER
    steps = np.full(len(gaps) + int(further.sum()), _FURTHER, np.uint8)
    steps[np.cumsum(further + 1) - 1] = gaps % _FURTHER
    return steps


def _narrowed(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Values in the type that takes fewest bytes, and those that it cannot hold."""
    if values.dtype.kind == "f":
        return values, np.empty(0, _WIDE)
    escaped = {}
    for narrow in _COUNT_DTYPES:
        low, high = _reach(narrow)
        escaped[narrow] = (values > high) | (values <= low)
    bytes_as = {
        narrow: len(values) * narrow.itemsize + np.count_nonzero(apart) * _WIDE.itemsize
        for narrow, apart in escaped.items()
    }
    best = min(bytes_as, key=lambda narrow: bytes_as[narrow])
    apart = escaped[best]
    held = np.where(apart, _reach(best)[0], values).astype(best)
    return held, values[apart].astype(_WIDE)


def _reach(narrow: np.dtype[Any]) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    half = 1 << (8 * narrow.itemsize - 1)
    return -half, half - 1
