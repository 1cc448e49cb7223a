"""The inner loops of making a corpus up, compiled by numba.

Import this module only after `workloads.plda.compilation` has chosen numba's cache folder.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from workloads.plda.kernels import random_bits

_LONGEST = 36
"""Bytes of a line at most: three numbers of ten digits, two spaces, a line's end."""


@njit(nogil=True, cache=True)
def _uniform(state):  # type: ignore[no-untyped-def]
    return np.float64(random_bits(state) >> np.uint64(11)) * 2.0**-53


@njit(nogil=True, cache=True)
def _write(number, text, place):  # type: ignore[no-untyped-def]
    """Write a number in decimal; returns the place after it."""
    digits = 1
    while number >= 10**digits:
        digits += 1
    for position in range(digits - 1, -1, -1):
        text[place + position] = np.uint8(48 + number % 10)
        number //= 10
    return place + digits


@njit(nogil=True, cache=True)
def write_documents(first, lengths, mixtures, topics, counts, state):  # type: ignore[no-untyped-def]
    """Draw documents and write them as lines "document word count", ids from 1, words rising.

    `lengths` int64[n]; `mixtures` float64[n, K] and `topics` float32[K, W] are cumulative. `counts`
    int32[W] is scratch of zeros, and so left. Returns (text uint8, entries).
    """
    drawn = np.empty(lengths.max(), np.int32)
    text = np.empty(lengths.sum() * _LONGEST, np.uint8)
    place, entries = 0, 0
    for index in range(lengths.size):
        for token in range(lengths[index]):
            topic = np.searchsorted(mixtures[index], _uniform(state) * mixtures[index, -1])
            row = topics[min(topic, topics.shape[0] - 1)]
            word = np.searchsorted(row, np.float32(_uniform(state)) * row[-1])
            drawn[token] = min(word, row.size - 1)
            counts[drawn[token]] += 1
        words = np.sort(drawn[: lengths[index]])
        for token in range(words.size):
            word = words[token]
            if counts[word] == 0:
                continue
            place = _write(first + index + 1, text, place)
            text[place] = 32
            place = _write(word + 1, text, place + 1)
            text[place] = 32
            place = _write(counts[word], text, place + 1)
            text[place] = 10
            place += 1
            counts[word] = 0
            entries += 1
    return text[:place], entries
