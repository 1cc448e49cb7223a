"""A corpus small enough to check by hand, published where Plda looks for its prepared data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from workloads.cache import publish
from workloads.plda import Plda

WORDS = 12
DOCUMENTS = 30
HELDOUT = 5


def tiny_plda(cache_dir: Path, **changes: Any) -> Plda:
    """Return a prepared Plda over 25 training and 5 held-out documents of 4 to 20 tokens."""
    settings: dict[str, Any] = {
        "name": "plda_sotu",
        "corpus": "sotu",
        "topics": 5,
        "alpha": 0.1,
        "beta": 0.05,
        "minibatch_tokens": 30,
        "heldout_fraction": 0.1,
        "fold_in_sweeps": 6,
        "seed": 3,
        "cache_dir": cache_dir,
    }
    workload = Plda(**(settings | changes))
    publish(workload.prepared_dir, tiny_corpus)
    workload.prepare()
    return workload


def tiny_corpus() -> dict[str, np.ndarray]:
    """Return the arrays that preparing a corpus makes, from a fixed random stream."""
    rng = np.random.default_rng(7)
    lengths = rng.integers(4, 21, DOCUMENTS)
    return {
        "words": rng.integers(0, WORDS, int(lengths.sum())).astype(np.int32),
        "offsets": np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        "train_documents": np.arange(DOCUMENTS - HELDOUT, dtype=np.int32),
        "heldout_documents": np.arange(DOCUMENTS - HELDOUT, DOCUMENTS, dtype=np.int32),
        "vocabulary": np.array([f"word{index}" for index in range(WORDS)]),
    }


def word_counts_of_training() -> np.ndarray:
    """Count each word over the training documents: int64[WORDS]."""
    corpus = tiny_corpus()
    end = corpus["offsets"][DOCUMENTS - HELDOUT]
    return np.bincount(corpus["words"][:end], minlength=WORDS)
