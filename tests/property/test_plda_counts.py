"""A Gibbs pass keeps counts and topics in step, whatever the documents and the number of topics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.plda.compilation import load_kernels
from workloads.plda.documents import Documents, visits

WORDS = 5


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory):
    return load_kernels(Path(tmp_path_factory.mktemp("cache")))


@given(
    st.lists(st.lists(st.integers(0, WORDS - 1), max_size=30), min_size=1, max_size=6),
    st.sampled_from([1, 2, 15, 16, 17, 32, 33, 100]),
    st.integers(0, 2**32),
    st.sampled_from([0.01, 0.1, 50.0]),
    st.data(),
)
def test_changes_are_those_of_the_topics(
    kernels, documents: list[list[int]], topics: int, seed: int, alpha: float, data
) -> None:
    first = data.draw(st.integers(0, len(documents) - 1))
    last = data.draw(st.integers(first + 1, len(documents)))
    words = np.array([word for document in documents for word in document], np.int32)
    starts = np.cumsum([0, *map(len, documents)]).astype(np.int64)
    ids = np.arange(len(documents), dtype=np.int32)
    seen = visits(Documents(ids, words, starts), first, last)
    assigned = np.random.default_rng(seed).integers(0, topics, words.size).astype(np.int32)
    before = counted(words, assigned, topics)
    table, totals = before.copy(), before.sum(axis=0, dtype=np.int32)
    table.flags.writeable = False
    others = np.delete(assigned, np.s_[starts[first] : starts[last]])
    changes = np.empty((2, 2 * words.size), np.int32)
    count = kernels.gibbs_pass(
        starts,
        first,
        last,
        *seen,
        assigned,
        table,
        totals,
        np.float32(alpha),
        np.float32(0.01),
        np.array([seed], np.uint64),
        *changes,
    )
    indices, values = changes[:, :count]
    assert np.array_equal(others, np.delete(assigned, np.s_[starts[first] : starts[last]]))
    assert ((assigned >= 0) & (assigned < topics)).all()
    assert (np.diff(indices) > 0).all()
    assert values.all()
    after = before.copy()
    after.reshape(-1)[indices] += values
    assert np.array_equal(after, counted(words, assigned, topics))
    assert np.array_equal(totals, after.sum(axis=0))


def counted(words: np.ndarray, assigned: np.ndarray, topics: int) -> np.ndarray:
    """Tokens of each word and topic: int32[WORDS, topics]."""
    cells = np.bincount(words * topics + assigned, minlength=WORDS * topics)
    return cells.reshape(WORDS, topics).astype(np.int32)


def test_documents_among_others_are_sampled_as_by_themselves(kernels) -> None:
    documents = [[0, 1, 1, 2], [3, 3, 0], [4, 1, 0, 2, 2], [1]]
    whole, own = documents, documents[1:3]
    found = []
    for texts, first in ((whole, 1), (own, 0)):
        words = np.array([word for text in texts for word in text], np.int32)
        starts = np.cumsum([0, *map(len, texts)]).astype(np.int64)
        ids = np.arange(len(texts), dtype=np.int32)
        seen = visits(Documents(ids, words, starts), first, first + 2)
        assigned = (np.arange(starts[-1]) - starts[first]).astype(np.int32) % 20
        inner = np.s_[starts[first] : starts[first + 2]]
        table = counted(words[inner], assigned[inner], 20)
        totals = table.sum(axis=0, dtype=np.int32)
        table.flags.writeable = False
        changes = np.empty((2, 2 * words.size), np.int32)
        priors = np.float32(0.1), np.float32(0.01)
        state = np.array([5], np.uint64)
        kernels.gibbs_pass(
            starts, first, first + 2, *seen, assigned, table, totals, *priors, state, *changes
        )
        found.append(assigned[inner])
    assert np.array_equal(*found)
