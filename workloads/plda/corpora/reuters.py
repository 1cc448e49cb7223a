"""395 Reuters news, as the package lda brings them: bags of words, for tests and comparisons."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from workloads.base import WorkloadError
from workloads.cache import Arrays
from workloads.plda.compilation import load_kernels
from workloads.plda.documents import split
from workloads.seeds import SPLIT_SEED, Purpose, key64


def build(cache_dir: Path, heldout_fraction: float) -> Arrays:
    """Read the corpus and split it; raises WorkloadError when the package is missing."""
    try:
        from lda.datasets import load_reuters, load_reuters_vocab
    except ImportError as error:
        raise WorkloadError(
            "plda_reuters needs the package lda, which is not installed (pip install lda==3.0.2)"
        ) from error
    table = load_reuters()
    documents, words = (found.astype(np.int32) for found in np.nonzero(table))
    counts = table[documents, words].astype(np.int32)
    tokens = np.empty(int(counts.sum()), np.int32)
    lengths = np.empty(len(table), np.int64)
    key = key64(SPLIT_SEED, Purpose.ORDER)
    kernels = load_kernels(cache_dir, "reading_kernels")
    found = kernels.spread(documents, words, counts, tokens, lengths, key)
    heldout, train = split(found, heldout_fraction)
    return {
        "words": tokens,
        "offsets": np.concatenate(([0], np.cumsum(lengths[:found]))),
        "train_documents": train,
        "heldout_documents": heldout,
        "vocabulary": np.array(load_reuters_vocab()),
    }
