"""Counts are conserved and views never negative, whatever is applied, dropped or stale."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlfabric.payload import Payload
from mlfabric.store import ModelStore
from mlfabric.view import ModelView
from tests.unit.plda_tiny import WORDS, tiny_plda, word_counts_of_training
from workloads.plda import Plda

WORKERS = 3
EVENTS = ("compute", "apply", "drop", "pull")


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Plda:
    return tiny_plda(tmp_path_factory.mktemp("cache"))


class Host:
    """A worker with at most one update on the wire."""

    def __init__(self, workload: Plda, worker: int, server: ModelStore) -> None:
        self.trainer = workload.trainer(worker, WORKERS)
        self.trainer.load()
        self.view = ModelView(server.model.copy(), conserved=True)
        self.iteration = 0
        self.included = -1
        self.on_the_wire: Payload | None = None

    def handle(self, event: str, server: ModelStore) -> None:
        if event == "pull":
            model = server.freeze(self.view.version)
            self.view.pulled(model, server.version, self.included)
        elif event == "compute" and self.on_the_wire is None:
            indices, values = self.trainer.compute(self.view.values)
            update = Payload(len(server.model), indices, values)
            self.on_the_wire = self.view.outgoing(self.iteration, update)
        elif self.on_the_wire is not None and event in ("apply", "drop"):
            if event == "apply":
                server.apply(self.on_the_wire, 1)
                self.included = self.iteration
            else:
                self.view.dropped(self.iteration)
            self.iteration += 1
            self.on_the_wire = None


def check(models: Iterable[np.ndarray], topics: int) -> None:
    for model in models:
        table = model[: WORDS * topics].reshape(WORDS, topics)
        assert model.min() >= 0
        assert np.array_equal(table.sum(axis=1), word_counts_of_training())
        assert np.array_equal(table.sum(axis=0), model[WORDS * topics :])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, WORKERS - 1), st.sampled_from(EVENTS)), max_size=60))
def test_no_interleaving_breaks_the_counts(workload: Plda, history: list[tuple[int, str]]) -> None:
    server = ModelStore(workload.initial_model())
    hosts = [Host(workload, worker, server) for worker in range(WORKERS)]
    for worker, event in history:
        hosts[worker].handle(event, server)
        check([server.model, *(host.view.values for host in hosts)], workload.topics)
    for host in hosts:
        for event in ("drop", "compute", "apply", "pull"):
            host.handle(event, server)
        check([server.model, host.view.values], workload.topics)
        assert np.array_equal(host.view.values, server.model)
