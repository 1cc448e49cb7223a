"""The sampler draws from the exact posterior of a corpus small enough to enumerate."""

from __future__ import annotations

from itertools import product
from math import lgamma
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from scipy.stats import chi2

from workloads.plda.compilation import load_kernels
from workloads.plda.documents import Documents, visits

ALPHA, BETA = 0.5, 0.25
THINNING = 8


def log_joint(documents: list[list[int]], topics: tuple[int, ...], words: int, k: int) -> float:
    """log p(words, topics) up to a constant: Dirichlet-multinomial terms."""
    by_document = np.zeros((len(documents), k))
    by_topic = np.zeros((k, words))
    position = 0
    for index, document in enumerate(documents):
        for word in document:
            by_document[index, topics[position]] += 1
            by_topic[topics[position], word] += 1
            position += 1
    log_p = sum(lgamma(count + ALPHA) for count in by_document.flat)
    log_p += sum(lgamma(count + BETA) for count in by_topic.flat)
    return log_p - sum(lgamma(total + words * BETA) for total in by_topic.sum(axis=1))


def sampled(
    kernels, documents: list[list[int]], k: int, samples: int, alpha: float = ALPHA
) -> np.ndarray:
    """Topics of all tokens, after every eighth sweep: int32[samples, tokens]."""
    words = np.array([word for document in documents for word in document], np.int32)
    starts = np.cumsum([0, *map(len, documents)]).astype(np.int64)
    ids = np.arange(len(documents), dtype=np.int32)
    seen = visits(Documents(ids, words, starts), 0, len(documents))
    assigned = np.zeros(words.size, np.int32)
    table = np.zeros((int(words.max()) + 1, k), np.int32)
    table[:, 0] = np.bincount(words)
    totals = np.zeros(k, np.int32)
    totals[0] = words.size
    state = np.array([12345], np.uint64)
    changes = np.empty((2, 2 * words.size), np.int32)
    kept = np.empty((samples, words.size), np.int32)
    for step in range(samples * THINNING):
        table.flags.writeable = False
        count = kernels.gibbs_pass(
            starts,
            0,
            len(documents),
            *seen,
            assigned,
            table,
            totals,
            np.float32(alpha),
            np.float32(BETA),
            state,
            *changes,
        )
        table.flags.writeable = True
        table.reshape(-1)[changes[0, :count]] += changes[1, :count]
        kept[step // THINNING] = assigned
    assert np.array_equal(table.sum(axis=0), totals)
    assert np.array_equal(table.sum(axis=1), np.bincount(words))
    return kept


def posterior(documents: list[list[int]], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Every assignment of topics, int[states, tokens], and its probability."""
    words = [word for document in documents for word in document]
    states = list(product(range(k), repeat=len(words)))
    log_p = np.array([log_joint(documents, state, max(words) + 1, k) for state in states])
    p = np.exp(log_p - log_p.max())
    return np.array(states), p / p.sum()


def assert_fits(counted: np.ndarray, probabilities: np.ndarray) -> None:
    expected = counted.sum() * probabilities
    statistic = ((counted - expected) ** 2 / expected).sum()
    assert statistic < chi2.ppf(0.999, len(probabilities) - 1)


@pytest.mark.parametrize(
    ("documents", "k"),
    [([[0, 1, 1], [0, 2]], 2), ([[0, 1, 1]], 3), ([[0, 0]], 20), ([[0, 1]], 20)],
    ids=["two-documents", "three-topics", "two-blocks-of-topics", "two-words-and-blocks"],
)
def test_visits_match_the_enumerated_posterior(
    tmp_path: Path, documents: list[list[int]], k: int
) -> None:
    states, probabilities = posterior(documents, k)
    kept = sampled(load_kernels(tmp_path), documents, k, 20_000)
    radix = k ** np.arange(states.shape[1] - 1, -1, -1)
    assert_fits(np.bincount(kept @ radix, minlength=len(states)), probabilities)


def test_words_that_recur_over_several_blocks_of_topics(tmp_path: Path) -> None:
    # 104,976 states are too many to count; which tokens share a topic, and each token's own, are
    # not.
    documents, k = [[0, 0], [0, 1]], 18
    kept = sampled(load_kernels(tmp_path), documents, k, 40_000)
    states, probabilities = posterior(documents, k)
    patterns = shared(states)
    kinds = np.unique(patterns)
    wanted = np.array([probabilities[patterns == kind].sum() for kind in kinds])
    found = shared(kept)
    assert_fits(np.array([(found == kind).sum() for kind in kinds]), wanted)
    for token in range(4):
        assert_fits(np.bincount(kept[:, token], minlength=k), np.full(k, 1 / k))


def test_a_small_alpha_is_not_lost_beside_a_count(tmp_path: Path) -> None:
    # A token alone in its document and alone of its word is of either topic with equal probability.
    kept = sampled(load_kernels(tmp_path), [[0]], 2, 4_000, alpha=1e-8)
    assert_fits(np.bincount(kept[:, 0], minlength=2), np.array([0.5, 0.5]))


@pytest.mark.parametrize("topics", [33, 100, 1000])
def test_topics_are_drawn_in_proportion_to_their_weights(tmp_path: Path, topics: int) -> None:
    kernels = load_kernels(tmp_path)
    draw = kernels._draw
    rng = np.random.default_rng(topics)
    width = kernels.vectors.whole(topics)
    # Whole numbers, whose sums are exact; a quarter of the weights are 0.
    share = np.zeros(width, np.float32)
    share[:topics] = rng.integers(0, 4, topics)
    counts = np.zeros(2 * width, np.float32)
    counts[width : width + topics] = rng.integers(0, 5, topics)
    old, without = 7, np.float32(3.0)

    @njit
    def drawn(times):
        sums, before = np.empty(width, np.float32), np.zeros(17, np.float32)
        state, found = np.ones(1, np.uint64), np.zeros(topics, np.int64)
        for _ in range(times):
            place, alpha = np.uintp(width), np.float32(1.0)
            found[
                draw(
                    counts,
                    place,
                    alpha,
                    share,
                    np.uintp(old),
                    without,
                    sums,
                    before,
                    topics,
                    state,
                )
            ] += 1
        return found

    weights = (counts[width : width + topics] + 1) * share[:topics]
    weights[old] = without
    found = drawn(200 * topics)
    assert not found[weights == 0].any()
    assert_fits(found[weights > 0], weights[weights > 0] / weights.sum())


def shared(topics: np.ndarray) -> np.ndarray:
    """For each row, a number that tells which of its entries are equal."""
    pairs = [
        topics[:, first] == topics[:, second]
        for first in range(topics.shape[1])
        for second in range(first)
    ]
    return np.array(pairs).T @ (2 ** np.arange(len(pairs)))
