"""The inner loops, compiled by numba: drawing a topic, a Gibbs pass, folding in held-out documents.

Import this module only after `workloads.plda.compilation` has chosen numba's cache folder.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from workloads.plda import vectors
from workloads.plda.vectors import LANES

INDEX = np.uintp
"""Unsigned: a negative index need not be looked for."""


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

    `counts` and `share` are float32 in whole vectors, `share` 0 where no topic is; `old`, a topic,
    and `begin` are unsigned. Weights add up down the lanes, then across them, so that the lane and
    the topic in it are found by counting the sums that are passed: the search has no branches, and
    few additions wait for each other. Scratch: `sums` float32, as long as `share`, and `before`
    float32[LANES + 1], whose first is 0. `state` is uint64[1].
    """
    prior = vectors.splat(alpha)
    weights = vectors.splat(np.float32(0.0))
    for block in range(share.size // LANES):
        at = INDEX(block * LANES)
        weight = (vectors.load(counts, begin + at) + prior) * vectors.load(share, at)
        weights = weights + vectors.put(weight, old - at, without)
        vectors.store(sums, at, weights)
    across = vectors.running_sums(weights)
    vectors.store(before, INDEX(1), across)
    uniform = np.float32(random_bits(state) >> np.uint64(40)) * np.float32(2.0**-24)
    rest = uniform * vectors.last(across)
    lane = min(vectors.at_most(across, rest), INDEX(LANES - 1))
    rest -= before[lane]
    passed = INDEX(0)
    for block in range(share.size // LANES - 1):
        passed += INDEX(sums[INDEX(block * LANES) + lane] <= rest)
    topic = passed * INDEX(LANES) + lane
    # By rounding, as sums across are no sums of those down, one in some 10 million draws is of a
    # neighbor or, beyond all topics, of none.
    return topic if topic < INDEX(topics) else old


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
def _count_topics(starts, first, last, assigned, width):  # type: ignore[no-untyped-def]
    """Count each document's topics, a row of `width` each, one row after another: float32, exact
    up to 2^24 tokens of a document.

    Also returns where the row of each token begins: int64[tokens].
    """
    base = starts[first]
    counts = vectors.zeros((last - first) * width, np.float32)
    rows = np.empty(starts[last] - base, dtype=np.int64)
    for document in range(first, last):
        begin = (document - first) * width
        for token in range(starts[document], starts[document + 1]):
            counts[INDEX(begin + assigned[token])] += np.float32(1.0)
            rows[token - base] = begin
    return counts, rows


@njit(inline="always", nogil=True, cache=True, fastmath=True)
def _note_changes(row, seen, cell, indices, values, noted):  # type: ignore[no-untyped-def]
    """Append where a word's counts differ from those seen, int32 in whole vectors both.

    `cell` is the index of its first count. Returns how many changes are noted now.
    """
    for at in range(0, row.size, LANES):
        bits = vectors.differing(vectors.load(row, INDEX(at)), vectors.load(seen, INDEX(at)))
        while bits:
            topic = INDEX(at) + vectors.lowest(bits)
            indices[noted] = cell + topic
            values[noted] = row[topic] - seen[topic]
            noted += 1
            bits &= bits - np.uint64(1)
    return noted


@njit(nogil=True, cache=True, fastmath=True)
def gibbs_pass(  # type: ignore[no-untyped-def]
    starts,
    first,
    last,
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
    """Resample every token of documents first..last-1 once (collapsed Gibbs).

    Weight of topic k for word w: (n_dk + alpha) q_k with q_k = (n_wk + beta) / (n_k + W beta),
    without the token itself. Tokens are visited word by word, so that q is worked out once for all
    tokens of a word, and then kept up to date. No count is written while a token keeps its topic:
    the processor is then at the next ones before this one's is known. A row of K counts is made
    for each document.
    Group g of `order` int64, tokens groups[g]..groups[g + 1]-1, has the word words[g], rising.
    `assigned` int32[tokens] and `totals` int32[K] are updated; `table` int32[W, K] is only read.
    Its changes go to `indices`, `values` int32[2 x tokens]; returns how many there are.
    """
    topics = totals.size
    width = vectors.whole(topics)
    counts, rows = _count_topics(starts, first, last, assigned, width)
    share, sums = vectors.zeros(width, np.float32), vectors.zeros(width, np.float32)
    before = np.zeros(LANES + 1, dtype=np.float32)
    inverse = np.empty(topics, dtype=np.float32)
    row, seen = vectors.zeros(width, np.int32), vectors.zeros(width, np.int32)
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
            others = np.float32(np.int32(counts[begin + old]) - 1)  # a small alpha is not lost
            without = (others + alpha) * share_less
            new = _draw(counts, begin, alpha, share, old, without, sums, before, topics, state)
            if new == old:
                continue
            assigned[token] = np.int32(new)
            counts[begin + old] -= one
            counts[begin + new] += one
            row[old] -= 1
            totals[old] -= 1
            inverse[old] = inverse_less
            vectors.set_at(share, old, share_less)
            row[new] += 1
            totals[new] += 1
            inverse[new] = one / (np.float32(totals[new]) + smoothing)
            vectors.set_at(share, new, (np.float32(row[new]) + beta) * inverse[new])
        noted = _note_changes(row, seen, words[group] * topics, indices, values, noted)
    return noted


@njit(nogil=True, cache=True, fastmath=True)
def _fold_in(words, assigned, phi, topics, alpha, sweeps, state, mixture):  # type: ignore[no-untyped-def]
    """Sample a text's topics with phi fixed; `mixture` float32[K] gets its mean topic shares.

    The mean is over the second half of the sweeps, which is steadier than the last one alone.
    """
    width = phi.shape[1]
    counts, sums = vectors.zeros(width, np.float32), vectors.zeros(width, np.float32)
    before = np.zeros(LANES + 1, dtype=np.float32)
    one = np.float32(1.0)
    for token in range(words.size):
        assigned[token] = np.int32(random_bits(state) % np.uint64(topics))
        counts[assigned[token]] += one
    mixture[:] = np.float32(0.0)
    for sweep in range(sweeps):
        for token in range(words.size):
            old, share = INDEX(assigned[token]), phi[words[token]]
            without = (np.float32(np.int32(counts[old]) - 1) + alpha) * share[old]
            new = _draw(counts, INDEX(0), alpha, share, old, without, sums, before, topics, state)
            assigned[token] = np.int32(new)
            vectors.set_at(counts, old, counts[old] - one)
            vectors.set_at(counts, new, counts[new] + one)
        if sweep >= sweeps // 2:
            for topic in range(topics):
                mixture[topic] += counts[topic] + alpha
    scale = np.float32((sweeps - sweeps // 2) * (words.size + topics * alpha))
    for topic in range(topics):
        mixture[topic] /= scale


@njit(nogil=True, cache=True, fastmath=True)
def completion_loglik(words, starts, phi, topics, alpha, sweeps, state):  # type: ignore[no-untyped-def]
    """Score documents by completion: fold in each first half, sum log p of each second half.

    `phi` is float32[W, K in whole vectors], columns adding up to 1, or to 0 beyond the `topics`.
    Returns (sum of log p, tokens scored).
    """
    mixture = np.empty(topics, dtype=np.float32)
    assigned = np.empty(np.max(np.diff(starts)), dtype=np.int32)
    loglik, scored = 0.0, 0
    for index in range(starts.size - 1):
        begin, end = starts[index], starts[index + 1]
        middle = begin + (end - begin) // 2
        _fold_in(words[begin:middle], assigned, phi, topics, alpha, sweeps, state, mixture)
        for token in range(middle, end):
            row = phi[words[token]]
            likelihood = np.float32(0.0)
            for topic in range(topics):
                likelihood += mixture[topic] * row[topic]
            loglik += math.log(likelihood)
        scored += end - middle
    return loglik, scored
