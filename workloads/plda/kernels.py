"""The inner loops, compiled by numba: drawing a topic, a Gibbs pass, folding in held-out documents.

Import this module only after `workloads.plda.compilation` has chosen numba's cache folder.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

BLOCK = 16


@njit(inline="always", nogil=True, cache=True, fastmath=True)
def _random_bits(state):  # type: ignore[no-untyped-def]
    """Advance a splitmix64 generator; `state` is uint64[1]."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    bits = state[0]
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@njit(inline="always", nogil=True, cache=True, fastmath=True)
def _draw(weights, sums, topics, state):  # type: ignore[no-untyped-def]
    """Draw an index below `topics` in proportion to `weights`.

    `weights` is float32 padded with zeros to whole blocks; `sums` is scratch, one a block. Summing
    by blocks keeps the additions independent of each other, and the search skips whole blocks.
    """
    total = np.float32(0.0)
    for block in range(sums.size):
        block_sum = np.float32(0.0)
        for lane in range(BLOCK):
            block_sum += weights[block * BLOCK + lane]
        sums[block] = block_sum
        total += block_sum
    uniform = np.float32(_random_bits(state) >> np.uint64(40)) * np.float32(2.0**-24)
    rest = uniform * total
    block = 0
    while block < sums.size - 1 and rest >= sums[block]:
        rest -= sums[block]
        block += 1
    topic = block * BLOCK
    last = min(topic + BLOCK, topics) - 1
    while topic < last and rest >= weights[topic]:
        rest -= weights[topic]
        topic += 1
    return topic


@njit(nogil=True, cache=True, fastmath=True)
def initial_topics(ids, starts, key, topics):  # type: ignore[no-untyped-def]
    """Return a topic for every token, a function of (key, document id, position): int32[tokens]."""
    assigned = np.empty(starts[-1], dtype=np.int32)
    state = np.empty(1, dtype=np.uint64)
    for index in range(ids.size):
        state[0] = key ^ np.uint64(ids[index])
        state[0] = _random_bits(state)
        for token in range(starts[index], starts[index + 1]):
            assigned[token] = np.int32(_random_bits(state) % np.uint64(topics))
    return assigned


@njit(nogil=True, cache=True, fastmath=True)
def gibbs_pass(words, starts, first, last, assigned, word_topic, totals, alpha, beta, state):  # type: ignore[no-untyped-def]
    """Resample every token of documents first..last-1 once, in place (collapsed Gibbs).

    Weight of topic k for word w: (n_dk + alpha)(n_wk + beta) / (n_k + W beta), without the token
    itself. `assigned` int32[tokens], `word_topic` int32[W, K] and `totals` int32[K] are updated.
    """
    topics = totals.size
    blocks = (topics + BLOCK - 1) // BLOCK
    weights = np.zeros(blocks * BLOCK, dtype=np.float32)
    sums = np.empty(blocks, dtype=np.float32)
    document = np.empty(topics, dtype=np.float32)
    inverse = np.empty(topics, dtype=np.float32)
    one, smoothing = np.float32(1.0), np.float32(word_topic.shape[0]) * beta
    for topic in range(topics):
        inverse[topic] = one / (np.float32(totals[topic]) + smoothing)
    for index in range(first, last):
        document[:] = alpha
        for token in range(starts[index], starts[index + 1]):
            document[assigned[token]] += one
        for token in range(starts[index], starts[index + 1]):
            row = word_topic[words[token]]
            old = assigned[token]
            row[old] -= 1
            totals[old] -= 1
            document[old] -= one
            inverse[old] = one / (np.float32(totals[old]) + smoothing)
            for topic in range(topics):
                weights[topic] = document[topic] * (np.float32(row[topic]) + beta) * inverse[topic]
            new = _draw(weights, sums, topics, state)
            assigned[token] = new
            row[new] += 1
            totals[new] += 1
            document[new] += one
            inverse[new] = one / (np.float32(totals[new]) + smoothing)


@njit(nogil=True, cache=True, fastmath=True)
def _fold_in(words, assigned, phi, alpha, sweeps, state, mixture):  # type: ignore[no-untyped-def]
    """Sample a text's topics with phi fixed; `mixture` float32[K] gets its mean topic shares.

    The mean is over the second half of the sweeps, which is steadier than the last one alone.
    """
    topics = phi.shape[1]
    blocks = (topics + BLOCK - 1) // BLOCK
    weights = np.zeros(blocks * BLOCK, dtype=np.float32)
    sums = np.empty(blocks, dtype=np.float32)
    document = np.full(topics, alpha, dtype=np.float32)
    one = np.float32(1.0)
    for token in range(words.size):
        assigned[token] = np.int32(_random_bits(state) % np.uint64(topics))
        document[assigned[token]] += one
    mixture[:] = np.float32(0.0)
    for sweep in range(sweeps):
        for token in range(words.size):
            row = phi[words[token]]
            document[assigned[token]] -= one
            for topic in range(topics):
                weights[topic] = document[topic] * row[topic]
            assigned[token] = _draw(weights, sums, topics, state)
            document[assigned[token]] += one
        if sweep >= sweeps // 2:
            for topic in range(topics):
                mixture[topic] += document[topic]
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
