"""Document completion against values that can be worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.unit.plda_tiny import DOCUMENTS, HELDOUT, WORDS, tiny_corpus, tiny_plda
from workloads.base import WorkloadError
from workloads.cache import publish
from workloads.plda import Plda

TOPICS = 5


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Plda:
    return tiny_plda(tmp_path_factory.mktemp("cache"))


def model_of(table: np.ndarray) -> np.ndarray:
    return np.concatenate((table.ravel(), table.sum(axis=0))).astype(np.int32)


def test_equal_topics_score_as_one_unigram_model(workload: Plda) -> None:
    # With all topics equal the mixture does not matter: p(w) = (c_w + beta) / (C + W beta).
    counts = np.arange(1, WORDS + 1)
    model = model_of(np.repeat(counts[:, np.newaxis], TOPICS, axis=1))
    probability = (counts + 0.05) / (counts.sum() + WORDS * 0.05)
    corpus = tiny_corpus()
    seconds = []
    for document in range(DOCUMENTS - HELDOUT, DOCUMENTS):
        begin, end = corpus["offsets"][document : document + 2]
        seconds.append(corpus["words"][begin + (end - begin) // 2 : end])
    expected = np.log(probability[np.concatenate(seconds)]).mean()
    found = workload.evaluator().evaluate(model)
    assert found["heldout_loglik"] == pytest.approx(expected, rel=1e-5)


def test_the_first_half_tells_which_topic_the_second_half_has(tmp_path: Path) -> None:
    # Two topics over two words each; every document stays within one topic, so its second half has
    # p = 1/2 a word; not knowing the topic it would be 1/4.
    workload = of_heldout(tmp_path, [[0, 1] * 40, [2, 3] * 40])
    model = model_of(np.array([[1000, 0], [1000, 0], [0, 1000], [0, 1000]]))
    assert workload.evaluator().evaluate(model)["heldout_loglik"] == pytest.approx(
        np.log(0.5), abs=0.01
    )


def test_a_document_of_one_word_has_no_first_half_to_tell(tmp_path: Path) -> None:
    workload = of_heldout(tmp_path, [[0], [3]])
    model = model_of(np.array([[1000, 0], [1000, 0], [0, 1000], [0, 1000]]))
    assert workload.evaluator().evaluate(model)["heldout_loglik"] == pytest.approx(
        np.log(0.25), abs=0.01
    )


def of_heldout(cache_dir: Path, documents: list[list[int]]) -> Plda:
    """Two topics, and documents over four words that are all held out."""
    corpus = {
        "words": np.array([word for document in documents for word in document], np.int32),
        "offsets": np.cumsum([0, *map(len, documents)]).astype(np.int64),
        "train_documents": np.zeros(0, np.int32),
        "heldout_documents": np.arange(len(documents), dtype=np.int32),
        "vocabulary": np.array(list("abcd")),
    }
    workload = Plda(
        name="plda_sotu",
        corpus="sotu",
        topics=2,
        alpha=0.1,
        beta=0.01,
        minibatch_tokens=10,
        heldout_fraction=0.5,
        fold_in_sweeps=20,
        seed=0,
        cache_dir=cache_dir,
    )
    publish(workload.prepared_dir, lambda: corpus)
    workload.prepare()
    return workload


def test_same_model_same_score(workload: Plda) -> None:
    evaluator, model = workload.evaluator(), workload.initial_model()
    assert evaluator.evaluate(model) == evaluator.evaluate(model)


def test_a_negative_count_is_refused(workload: Plda) -> None:
    model = workload.initial_model()
    model[7] = -1
    with pytest.raises(WorkloadError, match=r"negative count \(-1 at index 7\)"):
        workload.evaluator().evaluate(model)
