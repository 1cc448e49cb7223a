"""The sampler draws from the exact posterior of a corpus small enough to enumerate."""

from __future__ import annotations

from itertools import product
from math import lgamma
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from workloads.plda.compilation import load_kernels
from workloads.plda.documents import Documents, visits

ALPHA, BETA = 0.5, 0.25


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


@pytest.mark.parametrize(
    ("documents", "k"),
    [([[0, 1, 1], [0, 2]], 2), ([[0, 1, 1]], 3), ([[0, 0]], 20)],
    ids=["two-documents", "three-topics", "two-blocks-of-topics"],
)
def test_visits_match_the_enumerated_posterior(
    tmp_path: Path, documents: list[list[int]], k: int
) -> None:
    kernels = load_kernels(tmp_path)
    words = np.array([word for document in documents for word in document], np.int32)
    vocabulary = int(words.max()) + 1
    states = list(product(range(k), repeat=words.size))
    log_p = np.array([log_joint(documents, state, vocabulary, k) for state in states])
    expected = np.exp(log_p - log_p.max())
    expected /= expected.sum()

    assigned = np.zeros(words.size, np.int32)
    table = np.zeros((vocabulary, k), np.int32)
    table[:, 0] = np.bincount(words)
    totals = np.zeros(k, np.int32)
    totals[0] = words.size
    state = np.array([12345], np.uint64)
    starts = np.cumsum([0, *map(len, documents)]).astype(np.int64)
    seen = visits(
        Documents(np.arange(len(documents), dtype=np.int32), words, starts), 0, len(documents)
    )
    changes = np.empty((2, 2 * words.size), np.int32)
    radix = k ** np.arange(words.size - 1, -1, -1)
    counted = np.zeros(len(states))
    samples, thinning = 20_000, 8
    for step in range(samples * thinning):
        table.flags.writeable = False
        count = kernels.gibbs_pass(
            starts,
            0,
            len(documents),
            *seen,
            assigned,
            table,
            totals,
            np.float32(ALPHA),
            np.float32(BETA),
            state,
            *changes,
        )
        table.flags.writeable = True
        table.reshape(-1)[changes[0, :count]] += changes[1, :count]
        if step % thinning == 0:
            counted[assigned @ radix] += 1

    statistic = ((counted - samples * expected) ** 2 / (samples * expected)).sum()
    assert statistic < chi2.ppf(0.999, len(states) - 1)
    assert totals.sum() == words.size
