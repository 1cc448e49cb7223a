"""The inner loops, compiled by numba: drawing a topic, a Gibbs pass, folding in held-out documents.

Import this module only after `workloads.plda.compilation` has chosen numba's cache folder.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

BLOCK = 16
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
def _block_sum(weights, block):  # type: ignore[no-untyped-def]
    """Sum one block of weights."""
    found = np.float32(0.0)
    for lane in range(BLOCK):
        found += weights[block * BLOCK + lane]
    return found


@njit(inline="always", nogil=True, cache=True, fastmath=True)
def _draw(weights, sums, topics, state):  # type: ignore[no-untyped-def]
    """Draw an index below `topics` in proportion to `weights`.

    `weights` is float32 padded with zeros to whole blocks; `sums` is scratch, one a block. Summing
    by blocks keeps the additions independent of each other, and the search skips whole blocks.
    """
    total = np.float32(0.0)
    for block in range(sums.size):
        sums[block] = _block_sum(weights, block)
        total += sums[block]
    uniform = np.float32(random_bits(state) >> np.uint64(40)) * np.float32(2.0**-24)
    return _search(weights, sums, topics, uniform * total)


@njit(inline="always", nogil=True, cache=True, fastmath=True)
def _search(weights, sums, topics, rest):  # type: ignore[no-untyped-def]
    """Return the index below `topics` at which the weights add up to more than `rest`."""
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
        state[0] = random_bits(state)
        for token in range(starts[index], starts[index + 1]):
            assigned[token] = np.int32(random_bits(state) % np.uint64(topics))
    return assigned


@njit(nogil=True, cache=True, fastmath=True)
def _list_topics(starts, first, last, assigned, topics):  # type: ignore[no-untyped-def]
    """List the topics of each document, and how often each occurs, in whole blocks of entries.

    Returns (begins int64[documents + 1] of their lists, blocks in use of each, topic and count of
    each entry, place of each token's entry, document of each token). Entries in use or not, a
    count of 0 says that there is none.
    """
    documents = last - first
    begins = np.zeros(documents + 1, dtype=np.int64)
    for index in range(documents):
        room = min(starts[first + index + 1] - starts[first + index], topics)
        begins[index + 1] = begins[index] + (room + BLOCK - 1) // BLOCK * BLOCK
    topic = np.zeros(begins[documents], dtype=np.uint32)
    count = np.zeros(begins[documents], dtype=np.float32)
    used = np.zeros(documents, dtype=np.uint32)
    base = starts[first]
    place = np.empty(starts[last] - base, dtype=np.uint32)
    document = np.empty(starts[last] - base, dtype=np.uint32)
    for index in range(documents):
        begin, size = begins[index], 0
        for token in range(starts[first + index], starts[first + index + 1]):
            entry = 0
            while entry < size and topic[begin + entry] != assigned[token]:
                entry += 1
            if entry == size:
                topic[begin + entry] = assigned[token]
                size += 1
            count[begin + entry] += np.float32(1.0)
            place[token - base] = begin + entry
            document[token - base] = index
        used[index] = (size + BLOCK - 1) // BLOCK
    return begins, used, topic, count, place, document


@njit(inline="always", nogil=True, cache=True, fastmath=True)
def _entry_for(topic, count, begin, end, new):  # type: ignore[no-untyped-def]
    """Return the place of a topic in a document's list, else of a free entry, else `end`."""
    free, place = end, begin
    while place < end:
        if count[place] == np.float32(0.0):
            free = min(free, place)
        elif topic[place] == new:
            return place
        place += INDEX(1)
    return free


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
    tokens of a word; n_dk is summed over the topics that the document has, and alpha q over blocks.
    A document's topics are listed in whole blocks of entries, of which those with a count of 0 are
    free, and each token knows its entry, so that nothing is looked for but a topic that is new.
    Group g of `order` int64, tokens groups[g]..groups[g + 1]-1, has the word words[g], rising.
    `assigned` int32[tokens] and `totals` int32[K] are updated; `table` int32[W, K] is only read.
    Its changes go to `indices`, `values` int32[2 x tokens]; returns how many there are.
    """
    topics = totals.size
    blocks = (topics + BLOCK - 1) // BLOCK
    base, tokens = starts[first], starts[last] - starts[first]
    begins, used, topic, count, by_token, documents = _list_topics(
        starts, first, last, assigned, topics
    )
    # In the order of visits, so that memory is read as it lies.
    entries = np.empty(tokens, dtype=np.uint32)
    owners = np.empty(tokens, dtype=np.uint32)
    for visit in range(tokens):
        entries[visit] = by_token[INDEX(order[visit] - base)]
        owners[visit] = documents[INDEX(order[visit] - base)]
    share = np.zeros(blocks * BLOCK, dtype=np.float32)
    sums = np.empty(blocks, dtype=np.float32)
    weights = np.empty(topics + BLOCK, dtype=np.float32)
    inverse = np.empty(topics, dtype=np.float32)
    row = np.empty(topics, dtype=np.int32)
    changes = 0
    one, zero = np.float32(1.0), np.float32(0.0)
    smoothing = np.float32(table.shape[0]) * beta
    for k in range(topics):
        inverse[k] = one / (np.float32(totals[k]) + smoothing)
    for group in range(words.size):
        seen = table[words[group]]
        for k in range(topics):
            row[k] = seen[k]
            share[k] = (np.float32(row[k]) + beta) * inverse[k]
        everywhere = zero
        for block in range(blocks):
            sums[block] = _block_sum(share, block)
            everywhere += sums[block]
        changed = False
        for visit in range(groups[group], groups[group + 1]):
            own = INDEX(owners[INDEX(visit)])
            begin = INDEX(begins[own])
            mine = INDEX(entries[INDEX(visit)])
            old = INDEX(topic[mine])
            local = zero
            for block in range(INDEX(used[own])):
                for lane in range(BLOCK):
                    entry = INDEX(block) * INDEX(BLOCK) + INDEX(lane)
                    weight = count[begin + entry] * share[INDEX(topic[begin + entry])]
                    weights[entry] = weight
                    local += weight
            # Without the token itself.
            inverse_less = one / (np.float32(totals[old] - 1) + smoothing)
            share_less = (np.float32(row[old] - 1) + beta) * inverse_less
            gone = share_less - share[old]
            weight = (count[mine] - one) * share_less
            local += weight - weights[mine - begin]
            weights[mine - begin] = weight
            uniform = np.float32(random_bits(state) >> np.uint64(40)) * np.float32(2.0**-24)
            rest = uniform * (local + alpha * (everywhere + gone))
            if rest < local:
                entry = INDEX(0)
                end = INDEX(used[own]) * INDEX(BLOCK) - INDEX(1)
                while entry < end and rest >= weights[entry]:
                    rest -= weights[entry]
                    entry += INDEX(1)
                place = begin + entry
                new = INDEX(topic[place])
                if new == old or count[place] == zero:  # the latter by rounding alone
                    continue
                count[mine] -= one
            else:
                share[old] += gone
                sums[old // INDEX(BLOCK)] += gone
                new = INDEX(_search(share, sums, topics, (rest - local) / alpha))
                share[old] -= gone
                sums[old // INDEX(BLOCK)] -= gone
                if new == old:
                    continue
                count[mine] -= one
                end = begin + INDEX(used[own]) * INDEX(BLOCK)
                place = INDEX(_entry_for(topic, count, begin, end, new))
                if place == end:
                    used[own] += np.uint32(1)
                topic[place] = new
            count[place] += one
            entries[INDEX(visit)] = place
            changed = True
            row[old] -= 1
            totals[old] -= 1
            inverse[old] = inverse_less
            share[old] = share_less
            sums[old // INDEX(BLOCK)] += gone
            row[new] += 1
            totals[new] += 1
            inverse[new] = one / (np.float32(totals[new]) + smoothing)
            more = (np.float32(row[new]) + beta) * inverse[new] - share[new]
            share[new] += more
            sums[new // INDEX(BLOCK)] += more
            everywhere += gone + more
        if not changed:
            continue
        for k in range(topics):
            if row[k] != seen[k]:
                indices[changes] = words[group] * topics + k
                values[changes] = row[k] - seen[k]
                changes += 1
    for visit in range(tokens):
        assigned[order[visit]] = topic[entries[visit]]
    return changes


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
        assigned[token] = np.int32(random_bits(state) % np.uint64(topics))
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
