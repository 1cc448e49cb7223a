"""Objects of any kind as bytes, functions included, with parts that stay outside by name."""

from __future__ import annotations

import io
import pickle
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import cloudpickle
import numpy as np
from numpy.typing import NDArray

_STACK_BYTES = 512 << 20
_DEPTH = 500_000
"""What waits for what may be a long chain, which pickle follows link by link."""

T = TypeVar("T")


def dumps(content: Any, outside: Mapping[str, Any]) -> bytes:
    """Bytes of `content`; where that refers to one of `outside`, only the name is kept.

    Views of an array stay views of it.
    """
    names = {id(value): name for name, value in outside.items()}
    file = io.BytesIO()
    _deeply(lambda: _Pickler(file, names).dump(content))
    return file.getvalue()


def loads(data: bytes, outside: Mapping[str, Any]) -> Any:
    """What `dumps` was given, with these in the places of what was outside then."""
    return _deeply(lambda: _Unpickler(io.BytesIO(data), outside).load())


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    def __init__(self, file: io.BytesIO, names: Mapping[int, str]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._names = names

    def persistent_id(self, obj: Any) -> str | None:
        return self._names.get(id(obj))

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is np.ndarray and (owner := _owner(obj)) is not obj:
            offset = _address(obj) - _address(owner)
            return _view, (owner, obj.shape, obj.dtype, offset, obj.strides)
        return super().reducer_override(obj)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, outside: Mapping[str, Any]) -> None:
        super().__init__(file)
        self._outside = outside

    def persistent_load(self, pid: Any) -> Any:
        return self._outside[pid]


def _owner(array: NDArray[Any]) -> NDArray[Any]:
    """What it is a view of, in the end, whose bytes pickle leaves in their order; else itself."""
    owner = array
    while type(owner.base) is np.ndarray:
        owner = owner.base
    return owner if owner.flags.c_contiguous else array


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _view(
    base: NDArray[Any],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    offset: int,
    strides: tuple[int, ...],
) -> NDArray[Any]:
    return np.ndarray(shape, dtype, base.reshape(-1).view(np.uint8), offset, strides)


def _deeply(call: Callable[[], T]) -> T:
    """Call with room for a deep recursion."""
    found: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            found.append(call())
        except BaseException as error:
            errors.append(error)

    size, depth = threading.stack_size(_STACK_BYTES), sys.getrecursionlimit()
    sys.setrecursionlimit(_DEPTH)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(depth)
    if errors:
        raise errors[0]
    return found[0]
