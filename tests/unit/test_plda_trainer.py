"""Deltas of one minibatch: sparse, conserved, repeatable, different for every worker."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.plda_tiny import DOCUMENTS, HELDOUT, WORDS, tiny_plda, word_counts_of_training
from workloads.plda import Plda
from workloads.plda.compilation import load_kernels
from workloads.plda.documents import minibatch_bounds, shard


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Plda:
    return tiny_plda(tmp_path_factory.mktemp("cache"))


def first_update(workload: Plda, worker: int, workers: int = 2) -> tuple[np.ndarray, np.ndarray]:
    trainer = workload.trainer(worker, workers)
    trainer.load()
    return trainer.compute(workload.initial_model())


def test_initial_model_counts_every_training_token_once(workload: Plda) -> None:
    model = workload.initial_model()
    table = model[: WORDS * 5].reshape(WORDS, 5)
    assert model.dtype == np.int32
    assert model.size == (WORDS + 1) * 5
    assert np.array_equal(table.sum(axis=1), word_counts_of_training())
    assert np.array_equal(table.sum(axis=0), model[WORDS * 5 :])


def test_workers_regenerate_the_topics_that_the_initial_model_counts(workload: Plda) -> None:
    # Each trainer visits all its documents once. Were its own topics not those in the model, some
    # count would be taken below zero, and the word totals would no longer match the corpus.
    model = workload.initial_model()
    for worker in range(2):
        trainer = workload.trainer(worker, 2)
        trainer.load()
        for _ in range(12):
            indices, values = trainer.compute(model)
            model[indices] += values
            assert model.min() >= 0
    table = model[: WORDS * 5].reshape(WORDS, 5)
    assert np.array_equal(table.sum(axis=1), word_counts_of_training())


def test_update_is_sparse_and_leaves_the_view_alone(workload: Plda) -> None:
    trainer = workload.trainer(0, 2)
    trainer.load()
    view = workload.initial_model()
    before = view.copy()
    view.flags.writeable = False
    indices, values = trainer.compute(view)
    assert np.array_equal(view, before)
    assert indices.dtype == np.int32
    assert values.dtype == np.int32
    assert np.all(np.diff(indices) > 0)
    assert 0 < indices.size < view.size
    assert np.all(values != 0)


def test_update_adds_up_to_zero_over_words_and_over_totals(workload: Plda) -> None:
    indices, values = first_update(workload, worker=1)
    in_words = indices < WORDS * 5
    assert values[in_words].sum() == 0
    assert values[~in_words].sum() == 0


def test_an_update_is_not_overwritten_by_the_next(workload: Plda) -> None:
    trainer = workload.trainer(0, 2)
    trainer.load()
    model = workload.initial_model()
    indices, values = trainer.compute(model)
    kept = indices.copy(), values.copy()
    model[indices] += values
    trainer.compute(model)
    assert np.array_equal(indices, kept[0])
    assert np.array_equal(values, kept[1])


def test_same_seed_repeats_and_another_differs(workload: Plda) -> None:
    again = tiny_plda(workload.cache_dir)
    other = tiny_plda(workload.cache_dir, seed=4)
    assert np.array_equal(workload.initial_model(), again.initial_model())
    assert not np.array_equal(workload.initial_model(), other.initial_model())
    for mine, theirs in zip(first_update(workload, 0), first_update(again, 0), strict=True):
        assert np.array_equal(mine, theirs)


def test_warm_up_changes_no_update(workload: Plda) -> None:
    warm = workload.trainer(0, 2)
    warm.warm_up()
    warm.load()
    for mine, theirs in zip(
        warm.compute(workload.initial_model()), first_update(workload, 0), strict=True
    ):
        assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_shards_partition_the_documents_by_tokens(workload: Plda, workers: int) -> None:
    shards = [shard(workload.prepared_dir, 3, worker, workers) for worker in range(workers)]
    ids = np.concatenate([part.ids for part in shards])
    assert np.array_equal(np.sort(ids), np.arange(DOCUMENTS - HELDOUT))
    fair = word_counts_of_training().sum() / workers
    assert all(abs(part.words.size - fair) <= 20 for part in shards)  # 20: the longest document


def test_minibatches_cover_all_documents_in_about_equal_parts() -> None:
    starts = np.array([0, 10, 20, 30, 40, 50, 60], np.int64)
    assert minibatch_bounds(starts, 20).tolist() == [0, 2, 4, 6]
    assert minibatch_bounds(starts, 1000).tolist() == [0, 6]
    assert minibatch_bounds(starts, 1).tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_minibatches_hold_no_more_documents_than_they_may() -> None:
    starts = np.array([0, 10, 20, 30, 30, 30, 30, 30, 60], np.int64)
    assert minibatch_bounds(starts, 30, 2).tolist() == [0, 2, 3, 5, 7, 8]
    assert minibatch_bounds(starts, 30, 100).tolist() == [0, 3, 8]


def test_nothing_is_compiled_while_the_clock_runs(workload: Plda) -> None:
    # prepare() and warm_up() compile for certain argument types; a second signature would mean that
    # a real call brought others and compiled anew.
    first_update(workload, 0)
    workload.evaluator().evaluate(workload.initial_model())
    kernels = load_kernels(workload.cache_dir)
    for kernel in (kernels.initial_topics, kernels.gibbs_pass, kernels.completion_loglik):
        assert len(kernel.signatures) == 1
