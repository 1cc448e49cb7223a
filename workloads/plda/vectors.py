"""Vectors of 16 numbers in code compiled by numba: one register, or as many as a processor needs.

numba leaves vectors to the compiler's guess; here LLVM's own vector types are named, so that sums
that run along a vector, and searches in them, need no branch. Only for code compiled by numba, but
for `whole`; what reads or writes 16 numbers of an array takes it that they are all within it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, models, overload, register_jitable, register_model

LANES = 16
_BYTES = 64
"""A whole vector of float32: reading one that begins elsewhere touches two lines of the cache."""
_I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_LANE_NUMBERS = ir.VectorType(_I32, LANES)
_Code = tuple[Any, Callable[..., Any]]


class Vector(types.Type):
    """The type of 16 numbers of one type."""

    def __init__(self, element: Any) -> None:
        self.element = element
        super().__init__(name=f"Vector({element})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, models_of: Any, vector: Vector) -> None:
        element = models_of.lookup(vector.element).get_value_type()
        super().__init__(models_of, vector, ir.VectorType(element, LANES))


def _emit(build: Callable[..., Any]) -> Callable[..., Any]:
    """Return numba's code generator for an operation that `build(builder, *values)` writes."""
    return lambda _context, builder, _signature, values: build(builder, *values)


def _lanes(numbers: range) -> Any:
    return ir.Constant(_LANE_NUMBERS, list(numbers))


def _splat(builder: Any, value: Any) -> Any:
    empty = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    first = builder.insert_element(empty, value, _I32(0))
    return builder.shuffle_vector(first, empty, ir.Constant(_LANE_NUMBERS, [0] * LANES))


def _address(context: Any, builder: Any, array: Any, value: Any, at: Any) -> Any:
    vector = ir.VectorType(context.get_data_type(array.dtype), LANES)
    data = context.make_array(array)(context, builder, value).data
    return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())


def _is_plain(array: Any) -> bool:
    return isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"


@intrinsic
def load(_typing: Any, array: Any, at: Any) -> _Code | None:
    """Return array[at : at + 16]; `array` has one dimension, without strides."""
    if not _is_plain(array):
        return None

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load(_address(context, builder, signature.args[0], *values), align=4)

    return Vector(array.dtype)(array, at), build


@intrinsic
def store(_typing: Any, array: Any, at: Any, vector: Any) -> _Code | None:
    """Do array[at : at + 16] = vector; `array` has one dimension, without strides."""
    if not _is_plain(array):
        return None

    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = _address(context, builder, signature.args[0], *values[:2])
        builder.store(values[2], place, align=4)
        return context.get_dummy_value()

    return types.void(array, at, vector), build


@intrinsic
def splat(_typing: Any, value: Any) -> _Code:
    """Return 16 times the same number."""
    return Vector(value)(value), _emit(_splat)


@intrinsic
def _plus(_typing: Any, left: Any, right: Any) -> _Code:
    return left(left, right), _emit(lambda builder, *values: builder.fadd(*values))


@intrinsic
def _times(_typing: Any, left: Any, right: Any) -> _Code:
    return left(left, right), _emit(lambda builder, *values: builder.fmul(*values))


def _are_floats(left: Any, right: Any) -> bool:
    return left == right and isinstance(left, Vector) and isinstance(left.element, types.Float)


@overload(operator.add)
def _add(left, right):  # type: ignore[no-untyped-def]
    """Add vectors of floats."""
    return (lambda left, right: _plus(left, right)) if _are_floats(left, right) else None


@overload(operator.mul)
def _multiply(left, right):  # type: ignore[no-untyped-def]
    """Multiply vectors of floats."""
    return (lambda left, right: _times(left, right)) if _are_floats(left, right) else None


@intrinsic
def put(_typing: Any, vector: Any, lane: Any, value: Any) -> _Code:
    """Return the vector with `value` in that lane; as it is, where none of the 16 has the number.

    Of the number, uint64, the lower 32 bits count.
    """

    def build(builder: Any, vector: Any, lane: Any, value: Any) -> Any:
        place = _splat(builder, builder.trunc(lane, _I32))
        here = builder.icmp_unsigned("==", place, _lanes(range(LANES)))
        return builder.select(here, _splat(builder, value), vector)

    return vector(vector, lane, value), _emit(build)


@intrinsic
def running_sums(_typing: Any, vector: Any) -> _Code:
    """Return in each lane the sum of the lanes up to it; of floats."""

    def build(builder: Any, sums: Any) -> Any:
        zeros = ir.Constant(sums.type, [0.0] * LANES)
        step = 1
        while step < LANES:
            moved = _lanes(range(LANES - step, 2 * LANES - step))
            sums = builder.fadd(sums, builder.shuffle_vector(zeros, sums, moved))
            step *= 2
        return sums

    return vector(vector), _emit(build)


@intrinsic
def last(_typing: Any, vector: Any) -> _Code:
    """Return what the last lane holds."""
    build = _emit(lambda builder, value: builder.extract_element(value, _I32(LANES - 1)))
    return vector.element(vector), build


@intrinsic
def at_most(_typing: Any, vector: Any, limit: Any) -> _Code:
    """Return how many lanes of floats hold no more than `limit`."""

    def build(builder: Any, vector: Any, limit: Any) -> Any:
        found = builder.fcmp_ordered("<=", vector, _splat(builder, limit))
        return builder.zext(builder.ctpop(builder.bitcast(found, _I16)), _I64)

    return types.uint64(vector, limit), _emit(build)


@intrinsic
def differing(_typing: Any, left: Any, right: Any) -> _Code:
    """Return a bit for each lane of integers, lane 0 lowest: whether the two differ there."""

    def build(builder: Any, left: Any, right: Any) -> Any:
        return builder.zext(builder.bitcast(builder.icmp_signed("!=", left, right), _I16), _I64)

    return types.uint64(left, right), _emit(build)


@intrinsic
def lowest(_typing: Any, bits: Any) -> _Code:
    """Return the place of the lowest bit of a number that is not 0."""
    build = _emit(lambda builder, value: builder.cttz(value, ir.Constant(ir.IntType(1), 1)))
    return types.uint64(bits), build


@intrinsic
def _address_of(_typing: Any, array: Any) -> _Code:
    def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        return builder.ptrtoint(data, _I64)

    return types.uint64(array), build


@njit
def zeros(size, dtype):  # type: ignore[no-untyped-def]
    """Return zeros, float32[size] or int32[size], that begin at a multiple of 64 bytes."""
    room = np.zeros(size + LANES, dtype)
    skipped = (_BYTES - _address_of(room) % _BYTES) % _BYTES // 4
    return room[skipped : skipped + size]


@register_jitable
def whole(size):  # type: ignore[no-untyped-def]
    """Return the smallest multiple of 16 that is at least `size`; for any code."""
    return (size + LANES - 1) // LANES * LANES


@njit(inline="always")
def set_at(array, index, value):  # type: ignore[no-untyped-def]
    """Do array[index] = value by writing its whole vector, as the next to read it does so.

    `array` holds whole vectors, `index` is unsigned.

    A processor hands on what was just written only to a read of no more than that.
    """
    begin = index & ~np.uintp(LANES - 1)
    store(array, begin, put(load(array, begin), index - begin, value))
