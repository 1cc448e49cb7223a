"""Many seeded draws at once, each what a NumPy generator of its own would give first.

`default_rng(SeedSequence(key)).random(count)` costs tens of microseconds a key, nearly all of them
for the objects. Here the same arithmetic runs over arrays of keys: SeedSequence's hash (O'Neill's
seed_seq_fe), then PCG64 (XSL-RR on a 128-bit linear congruential generator), both fixed by NumPy's
promise that their streams never change.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]
LongWords = npt.NDArray[np.uint64]
Halves = tuple[LongWords, LongWords]  # of 128 bits: high, low

_POOL = 4
_FIRST_A, _TIMES_A = 0x43B0D7E5, 0x931E8875
_FIRST_B, _TIMES_B = 0x8B51F9DD, 0x58F38DED
_MIX_LEFT, _MIX_RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_SHIFT = np.uint32(16)
_MULTIPLIER = (np.uint64(2549297995355413924), np.uint64(4865540595714422341))
_LOW_HALF, _HALF = np.uint64(0xFFFF_FFFF), np.uint64(32)


def uniforms(key: Sequence[npt.ArrayLike], count: int) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1): row i holds the first `count` of the generator seeded with key i.

    `key` lists the 32-bit words of all keys: word by word, each one number for all keys or one for
    each. An integer below 2**32 is one word, a larger one several, the lowest first (`words`).
    """
    entropy = np.broadcast_arrays(*(np.asarray(word, np.uint32) for word in key))
    state, increment = _seeded(_generated(_mixed([np.ravel(word) for word in entropy])))
    drawn = np.empty((state[0].size, count))
    for place in range(count):
        state = _stepped(state, increment)
        drawn[:, place] = (_output(state) >> np.uint64(11)) * 2.0**-53
    return drawn


def words(number: int) -> tuple[int, ...]:
    """The 32-bit words of an integer, the lowest first; at least one."""
    split = [number & 0xFFFF_FFFF]
    while number := number >> 32:
        split.append(number & 0xFFFF_FFFF)
    return tuple(split)


class _Hash:
    """SeedSequence's hash of one word after another; its constant changes with every call."""

    def __init__(self) -> None:
        self._constant = _FIRST_A

    def __call__(self, value: Words) -> Words:
        value = value ^ np.uint32(self._constant)
        self._constant = self._constant * _TIMES_A & 0xFFFF_FFFF
        value = value * np.uint32(self._constant)
        return value ^ (value >> _SHIFT)


def _mixed(entropy: Sequence[Words]) -> list[Words]:
    """The pool of a SeedSequence."""
    hashed, none = _Hash(), np.zeros_like(entropy[0])
    pool = [hashed(entropy[i] if i < len(entropy) else none) for i in range(_POOL)]
    for src in range(_POOL):
        for dst in range(_POOL):
            if src != dst:
                pool[dst] = _mix(pool[dst], hashed(pool[src]))
    for word in entropy[_POOL:]:
        for dst in range(_POOL):
            pool[dst] = _mix(pool[dst], hashed(word))
    return pool


def _mix(left: Words, right: Words) -> Words:
    result: Words = _MIX_LEFT * left - _MIX_RIGHT * right
    return result ^ (result >> _SHIFT)


def _generated(pool: Sequence[Words]) -> list[LongWords]:
    """Four words of 64 bits: SeedSequence.generate_state."""
    constant, halves = _FIRST_B, []
    for place in range(2 * _POOL):
        value = pool[place % _POOL] ^ np.uint32(constant)
        constant = constant * _TIMES_B & 0xFFFF_FFFF
        value = value * np.uint32(constant)
        halves.append((value ^ (value >> _SHIFT)).astype(np.uint64))
    return [low | (high << _HALF) for low, high in zip(halves[::2], halves[1::2], strict=True)]


def _seeded(seed: Sequence[LongWords]) -> tuple[Halves, Halves]:
    """State and increment of a PCG64 with this seed."""
    one, top = np.uint64(1), np.uint64(63)
    increment = ((seed[2] << one) | (seed[3] >> top), (seed[3] << one) | one)
    return _stepped(_sum(increment, (seed[0], seed[1])), increment), increment


def _stepped(state: Halves, increment: Halves) -> Halves:
    high, low = state
    times_high, times_low = _MULTIPLIER
    product = _high_of_product(low, times_low) + high * times_low + low * times_high
    return _sum((product, low * times_low), increment)


def _sum(left: Halves, right: Halves) -> Halves:
    low = left[1] + right[1]
    return left[0] + right[0] + (low < left[1]), low


def _high_of_product(left: LongWords, right: np.uint64) -> LongWords:
    """The upper 64 bits of left * right."""
    left_low, left_high = left & _LOW_HALF, left >> _HALF
    right_low, right_high = right & _LOW_HALF, right >> _HALF
    middle = left_high * right_low + (left_low * right_low >> _HALF)
    carried = left_low * right_high + (middle & _LOW_HALF)
    high: LongWords = left_high * right_high + (middle >> _HALF) + (carried >> _HALF)
    return high


def _output(state: Halves) -> LongWords:
    """The 64 bits that a state gives: both halves, exclusive-or, rotated by the top six bits."""
    high, low = state
    value: LongWords = np.bitwise_xor(high, low)
    turn: LongWords = np.right_shift(high, np.uint64(58))
    back: LongWords = np.bitwise_and(np.uint64(64) - turn, np.uint64(63))
    rotated: LongWords = np.bitwise_or(value >> turn, value << back)
    return rotated
