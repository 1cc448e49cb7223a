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
)
def test_changes_are_those_of_the_topics(
    kernels, documents: list[list[int]], topics: int, seed: int, alpha: float
) -> None:
    words = np.array([word for document in documents for word in document], np.int32)
    starts = np.cumsum([0, *map(len, documents)]).astype(np.int64)
    seen = visits(
        Documents(np.arange(len(documents), dtype=np.int32), words, starts), 0, len(documents)
    )
    assigned = np.random.default_rng(seed).integers(0, topics, words.size).astype(np.int32)
    before = counted(words, assigned, topics)
    table, totals = before.copy(), before.sum(axis=0, dtype=np.int32)
    table.flags.writeable = False
    changes = np.empty((2, 2 * words.size), np.int32)
    count = kernels.gibbs_pass(
        starts,
        0,
        len(documents),
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
