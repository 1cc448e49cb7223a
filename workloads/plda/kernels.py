"""The inner loops, compiled by numba: drawing a topic, a Gibbs pass, folding in held-out documents.

Import this module only after `workloads.plda.compilation` has chosen numba's cache folder.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from workloads.plda.vectors import (
    LANES,
    at_most,
    differing,
    last,
    load,
    lowest,
    put,
    running_sums,
    set_at,
    splat,
    store,
    whole,
    zeros,
)

INDEX = np.uintp
"""Unsigned: a negative index need not be looked for, which makes the loop a sixth faster."""


@njit(inline="always", nogil=True, cache=True, fastmath=True)
def random_bits(state):  # type: ignore[no-untyped-def]
    """Advance a splitmix64 generator; `state` is uint64[1]."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    bits = state[0]
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@njit(inline="always", nogil=True, cache=True, fastmath=True)
def _draw(counts, begin, alpha, share, old, without, sums, before, topics, state):  # type: ignore[no-untyped-def]
    """Draw topic k in proportion to (counts[begin + k] + alpha) share[k]; `old` weighs `without`.

    `counts` and `share` are float32 in whole vectors, `share` 0 where no topic is. Weights add up
    down the lanes, then across them, so that the lane and the topic in it are found by counting
    the sums that are passed: no branch, and few additions that wait for each other. `sums`, as
    long as `share`, and `before` [LANES + 1], which begins with 0, are scratch.
    """
    prior = splat(alpha)
    weights = splat(np.float32(0.0))
    for block in range(share.size // LANES):
        at = INDEX(block * LANES)
        weight = (load(counts, begin + at) + prior) * load(share, at)
        weights = weights + put(weight, old - at, without)
        store(sums, at, weights)
    across = running_sums(weights)
    store(before, INDEX(1), across)
    uniform = np.float32(random_bits(state) >> np.uint64(40)) * np.float32(2.0**-24)
    rest = uniform * last(across)
    lane = min(at_most(across, rest), INDEX(LANES - 1))
    rest -= before[lane]
    passed = INDEX(0)
    for block in range(share.size // LANES - 1):
        passed += INDEX(sums[INDEX(block * LANES) + lane] <= rest)
    topic = passed * INDEX(LANES) + lane
    return topic if topic < INDEX(topics) else old  # beyond by rounding alone


@njit(nogil=True, cache=True, fastmath=True)
def initial_topics(ids, starts, key, topics):  # type: ignore[no-untyped-def]
    """Return a topic for every token, a function of (key, document id, position): int32[tokens]."""
    assigned = np.empty(starts[-1], dtype=np.int32)
    state = np.empty(1, dtype=np.uint64)
    for index in range(ids.size):
        state[0] = key ^ np.uint64(ids[index])
        state[0] = random_bits(state)
        for token in range(starts[index], starts[index + 1]):
            assigned[token] = np.int32(random_bits(state) % np.uint64(topics))
    return assigned


@njit(nogil=True, cache=True, fastmath=True)
def _count_topics(starts, first, last_document, assigned, width):  # type: ignore[no-untyped-def]
    """Count each document's topics, a row of `width` each, one row after another: float32.

    Also returns where the row of each token begins: int64[tokens].
    """
    base = starts[first]
    counts = zeros((last_document - first) * width, np.float32)
    rows = np.empty(starts[last_document] - base, dtype=np.int64)
    for document in range(first, last_document):
        begin = (document - first) * width
        for token in range(starts[document], starts[document + 1]):
            counts[INDEX(begin + assigned[token])] += np.float32(1.0)
            rows[token - base] = begin
    return counts, rows


@njit(inline="always", nogil=True, cache=True, fastmath=True)
def _note_changes(row, seen, cell, indices, values, noted):  # type: ignore[no-untyped-def]
    """Append where a word's counts differ from those seen; `cell` is its first index."""
    for at in range(0, row.size, LANES):
        bits = differing(load(row, INDEX(at)), load(seen, INDEX(at)))
        while bits:
            topic = INDEX(at) + lowest(bits)
            indices[noted] = cell + topic
            values[noted] = row[topic] - seen[topic]
            noted += 1
            bits &= bits - np.uint64(1)
    return noted


@njit(nogil=True, cache=True, fastmath=True)
def gibbs_pass(  # type: ignore[no-untyped-def]
    starts,
    first,
    last_document,
    order,
    groups,
    words,
    assigned,
    table,
    totals,
    alpha,
    beta,
    state,
    indices,
    values,
):
    """Resample every token of documents first..last_document-1 once (collapsed Gibbs).

    Weight of topic k for word w: (n_dk + alpha) q_k with q_k = (n_wk + beta) / (n_k + W beta),
    without the token itself. Tokens are visited word by word, so that q is worked out once for all
    tokens of a word, and then kept up to date. Nothing is written while a token keeps its topic,
    as most do: the processor is then at the next ones before this one's is known.
    Group g of `order` int64, tokens groups[g]..groups[g + 1]-1, has the word words[g], rising.
    `assigned` int32[tokens] and `totals` int32[K] are updated; `table` int32[W, K] is only read.
    Its changes go to `indices`, `values` int32[2 x tokens]; returns how many there are.
    """
    topics = totals.size
    width = whole(topics)
    counts, rows = _count_topics(starts, first, last_document, assigned, width)
    share, sums = zeros(width, np.float32), zeros(width, np.float32)
    before = np.zeros(LANES + 1, dtype=np.float32)
    inverse = np.empty(topics, dtype=np.float32)
    row, seen = zeros(width, np.int32), zeros(width, np.int32)
    one = np.float32(1.0)
    smoothing = np.float32(table.shape[0]) * beta
    for k in range(topics):
        inverse[k] = one / (np.float32(totals[k]) + smoothing)
    noted = 0
    for group in range(words.size):
        cells = table[words[group]]
        for k in range(topics):
            row[k] = seen[k] = cells[k]
            share[k] = (np.float32(cells[k]) + beta) * inverse[k]
        for visit in range(groups[group], groups[group + 1]):
            token = INDEX(order[INDEX(visit)])
            begin = INDEX(rows[token - INDEX(starts[first])])
            old = INDEX(assigned[token])
            inverse_less = one / (np.float32(totals[old] - 1) + smoothing)
            share_less = (np.float32(row[old] - 1) + beta) * inverse_less
            without = (counts[begin + old] - one + alpha) * share_less
            new = _draw(counts, begin, alpha, share, old, without, sums, before, topics, state)
            if new == old:
                continue
            assigned[token] = np.int32(new)
            counts[begin + old] -= one
            counts[begin + new] += one
            row[old] -= 1
            totals[old] -= 1
            inverse[old] = inverse_less
            set_at(share, old, share_less)
            row[new] += 1
            totals[new] += 1
            inverse[new] = one / (np.float32(totals[new]) + smoothing)
            set_at(share, new, (np.float32(row[new]) + beta) * inverse[new])
        noted = _note_changes(row, seen, words[group] * topics, indices, values, noted)
    return noted


@njit(nogil=True, cache=True, fastmath=True)
def _fold_in(words, assigned, phi, alpha, sweeps, state, mixture):  # type: ignore[no-untyped-def]
    """Sample a text's topics with phi fixed; `mixture` float32[K] gets its mean topic shares.

    The mean is over the second half of the sweeps, which is steadier than the last one alone.
    """
    topics = phi.shape[1]
    width = whole(topics)
    counts, sums = zeros(width, np.float32), zeros(width, np.float32)
    before = np.zeros(LANES + 1, dtype=np.float32)
    one = np.float32(1.0)
    shares = zeros(words.size * width, np.float32).reshape(words.size, width)
    for token in range(words.size):
        for topic in range(topics):
            shares[token, topic] = phi[words[token], topic]
        assigned[token] = np.int32(random_bits(state) % np.uint64(topics))
        counts[assigned[token]] += one
    mixture[:] = np.float32(0.0)
    for sweep in range(sweeps):
        for token in range(words.size):
            old, share = INDEX(assigned[token]), shares[token]
            without = (counts[old] - one + alpha) * share[old]
            new = _draw(counts, INDEX(0), alpha, share, old, without, sums, before, topics, state)
            assigned[token] = np.int32(new)
            set_at(counts, old, counts[old] - one)
            set_at(counts, new, counts[new] + one)
        if sweep >= sweeps // 2:
            for topic in range(topics):
                mixture[topic] += counts[topic] + alpha
    scale = np.float32((sweeps - sweeps // 2) * (words.size + topics * alpha))
    for topic in range(topics):
        mixture[topic] /= scale


@njit(nogil=True, cache=True, fastmath=True)
def completion_loglik(words, starts, phi, alpha, sweeps, state):  # type: ignore[no-untyped-def]
    """Score documents by completion: fold in each first half, sum log p of each second half.

    `phi` is float32[W, K], columns adding up to 1. Returns (sum of log p, tokens scored).
    """
    topics = phi.shape[1]
    mixture = np.empty(topics, dtype=np.float32)
    assigned = np.empty(np.max(np.diff(starts)), dtype=np.int32)
    loglik, scored = 0.0, 0
    for index in range(starts.size - 1):
        begin, end = starts[index], starts[index + 1]
        middle = begin + (end - begin) // 2
        _fold_in(words[begin:middle], assigned, phi, alpha, sweeps, state, mixture)
        for token in range(middle, end):
            row = phi[words[token]]
            likelihood = np.float32(0.0)
            for topic in range(topics):
                likelihood += mixture[topic] * row[topic]
            loglik += math.log(likelihood)
        scored += end - middle
    return loglik, scored
