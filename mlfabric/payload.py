"""The values of an update or a model, dense or sparse, and their form on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlfabric.errors import ProtocolError

INDEX = np.dtype(np.int32)
_DTYPES = {"float32": np.dtype(np.float32), "int32": np.dtype(np.int32)}


@dataclass(frozen=True)
class Payload:
    """A vector of `size` entries.

    Dense: `indices` is None and `values` has shape (size,). Sparse: `indices` int32 (nnz,),
    strictly increasing, with `values` (nnz,). Values are float32 or int32.
    """

    size: int
    indices: NDArray[np.int32] | None
    values: NDArray[Any]

    @property
    def nbytes(self) -> int:
        """Bytes on the wire."""
        index_bytes = 0 if self.indices is None else self.indices.nbytes
        return index_bytes + self.values.nbytes

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
        """L2 norm of float values, L1 norm of counts (section 4.4 of the paper; L1 is ours)."""
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


def smaller_of(size: int, indices: NDArray[np.int32], values: NDArray[Any]) -> Payload:
    """Sparse, or dense where that takes fewer bytes."""
    if indices.nbytes + values.nbytes < size * values.itemsize:
        return Payload(size, indices, values)
    full = np.zeros(size, values.dtype)
    full[indices] = values
    return dense(full)


def total(payloads: Sequence[Payload]) -> Payload:
    """The sum of one or more payloads of one size; stays sparse while that is smaller."""
    if len(payloads) == 1:
        return payloads[0]
    first = payloads[0]
    if all(p.indices is not None for p in payloads):
        joined = np.concatenate([p.indices for p in payloads if p.indices is not None])
        values = np.concatenate([p.values for p in payloads])
        indices, place = np.unique(joined, return_inverse=True)
        sums = np.zeros(len(indices), first.values.dtype)
        np.add.at(sums, place, values)
        return smaller_of(first.size, indices, sums)
    full = np.zeros(first.size, first.values.dtype)
    for payload in payloads:
        payload.add_to(full)
    return dense(full)


def to_wire(payload: Payload) -> tuple[dict[str, Any], NDArray[np.uint8]]:
    """(description, bytes); the bytes of a dense payload are its own memory, not a copy."""
    description = {"size": payload.size, "dtype": payload.values.dtype.name, "nnz": None}
    if payload.indices is None:
        return description, np.ascontiguousarray(payload.values).view(np.uint8)
    description["nnz"] = len(payload.indices)
    parts = (payload.indices.view(np.uint8), payload.values.view(np.uint8))
    return description, np.concatenate(parts)


def wire_bytes(description: dict[str, Any]) -> int:
    """Length of the bytes that a description announces."""
    item = _dtype(description).itemsize
    nnz = description["nnz"]
    return int(description["size"] * item if nnz is None else nnz * (INDEX.itemsize + item))


def from_wire(description: dict[str, Any], data: NDArray[np.uint8]) -> Payload:
    """The payload whose bytes are `data`; shares their memory."""
    dtype, nnz = _dtype(description), description["nnz"]
    if len(data) != wire_bytes(description):
        raise ProtocolError(f"payload: {len(data)} bytes where {wire_bytes(description)} are due")
    if nnz is None:
        return Payload(description["size"], None, data.view(dtype))
    split = nnz * INDEX.itemsize
    return Payload(description["size"], data[:split].view(INDEX), data[split:].view(dtype))


def _dtype(description: dict[str, Any]) -> np.dtype[Any]:
    try:
        return _DTYPES[description["dtype"]]
    except KeyError:
        raise ProtocolError(
            f"payload: dtype {description.get('dtype')!r}, allowed: float32, int32"
        ) from None
