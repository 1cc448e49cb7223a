"""The inner loops of reading a bag of words, compiled by numba.

Import this module only after `workloads.plda.compilation` has chosen numba's cache folder.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from workloads.plda.kernels import random_bits

SPACE, TAB, RETURN, NEWLINE, ZERO, NINE = 32, 9, 13, 10, 48, 57


@njit(nogil=True, cache=True)
def parse_entries(text, documents, words, counts, limits):  # type: ignore[no-untyped-def]
    """Read whole lines "document word count" of `text` uint8[bytes], which ends with a line's end.

    Fills the three int32 arrays, one place a line. `limits` int64[4]: the last document before,
    the most documents, words, and a count there may be. Stops at the first line that is not three
    numbers within them, documents never falling, or when the arrays are full. Returns (entries,
    lines, bytes) read: where these are fewer than there are, the next line is the one to complain
    about, or the arrays are full.
    """
    position, entries, lines = 0, 0, 0
    previous = limits[0]
    numbers = np.empty(3, np.int64)
    while position < text.size and entries < documents.size:
        place, found, digits = position, 0, 0
        sound = True
        while text[place] != NEWLINE:
            byte = text[place]
            if ZERO <= byte <= NINE:
                if digits == 0:
                    found += 1
                    if found <= 3:
                        numbers[found - 1] = 0
                digits += 1
                if found > 3 or digits > 12:
                    sound = False
                    break
                numbers[found - 1] = 10 * numbers[found - 1] + (byte - ZERO)
            elif byte in (SPACE, TAB, RETURN):
                digits = 0
            else:
                sound = False
                break
            place += 1
        if sound and found > 0:
            sound = (
                found == 3
                and max(1, previous) <= numbers[0] <= limits[1]
                and 1 <= numbers[1] <= limits[2]
                and 1 <= numbers[2] <= limits[3]
            )
        if not sound:
            break
        if found > 0:
            previous = numbers[0]
            documents[entries] = numbers[0]
            words[entries] = numbers[1] - 1
            counts[entries] = numbers[2]
            entries += 1
        position = place + 1
        lines += 1
    return entries, lines, position


@njit(nogil=True, cache=True)
def first_repeated(documents, words, seen):  # type: ignore[no-untyped-def]
    """Count entries whose word has stood in the same document before; `seen` int32[W] remembers.

    Returns (how many, place of the first or -1).
    """
    many, first = 0, -1
    for entry in range(words.size):
        if seen[words[entry]] == documents[entry]:
            many += 1
            if first < 0:
                first = entry
        seen[words[entry]] = documents[entry]
    return many, first


@njit(nogil=True, cache=True)
def spread(documents, words, counts, tokens, lengths, key):  # type: ignore[no-untyped-def]
    """Write every entry's word as often as it counts, each document's tokens in random order.

    `tokens` int32[sum of counts]; `lengths` int64 gets the tokens of each document that has any;
    the order is a function of (key, document). Returns the number of documents.
    """
    state = np.empty(1, np.uint64)
    place, found, entry = 0, 0, 0
    while entry < words.size:
        document, begin = documents[entry], place
        while entry < words.size and documents[entry] == document:
            for _ in range(counts[entry]):
                tokens[place] = words[entry]
                place += 1
            entry += 1
        state[0] = key ^ np.uint64(document)
        state[0] = random_bits(state)
        for last in range(place - 1, begin, -1):
            other = begin + np.int64(random_bits(state) % np.uint64(last - begin + 1))
            tokens[last], tokens[other] = tokens[other], tokens[last]
        lengths[found] = place - begin
        found += 1
    return found
