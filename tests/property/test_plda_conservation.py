"""Counts are conserved and views never negative, whatever is applied, dropped or stale."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.plda_tiny import WORDS, tiny_plda, word_counts_of_training
from workloads.plda import Plda

WORKERS = 3
EVENTS = ("compute", "apply", "drop", "pull")


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Plda:
    return tiny_plda(tmp_path_factory.mktemp("cache"))


class Host:
    """A worker's books: what it pulled, what that version lacks of its own, what is on the wire."""

    def __init__(self, workload: Plda, worker: int, server: np.ndarray) -> None:
        self.trainer = workload.trainer(worker, WORKERS)
        self.trainer.load()
        self.pulled = server.copy()
        self.unseen = np.zeros_like(server)
        self.carried = np.zeros_like(server)
        self.in_flight = np.zeros_like(server)

    def view(self) -> np.ndarray:
        return self.pulled + self.unseen

    def handle(self, event: str, server: np.ndarray) -> None:
        if event == "compute" and not self.in_flight.any():
            indices, values = self.trainer.compute(self.view())
            self.unseen[indices] += values
            self.carried[indices] += values
            self.in_flight, self.carried = self.carried, np.zeros_like(server)
        elif event == "apply":
            server += self.in_flight
            self.in_flight = np.zeros_like(server)
        elif event == "drop":
            self.carried += self.in_flight
            self.in_flight = np.zeros_like(server)
        elif event == "pull":
            self.pulled = server.copy()
            self.unseen = self.in_flight + self.carried


def check(models: Iterable[np.ndarray], topics: int) -> None:
    for model in models:
        table = model[: WORDS * topics].reshape(WORDS, topics)
        assert model.min() >= 0
        assert np.array_equal(table.sum(axis=1), word_counts_of_training())
        assert np.array_equal(table.sum(axis=0), model[WORDS * topics :])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, WORKERS - 1), st.sampled_from(EVENTS)), max_size=60))
def test_no_interleaving_breaks_the_counts(workload: Plda, history: list[tuple[int, str]]) -> None:
    server = workload.initial_model()
    hosts = [Host(workload, worker, server) for worker in range(WORKERS)]
    for worker, event in history:
        hosts[worker].handle(event, server)
        check([server, *(host.view() for host in hosts)], workload.topics)
    for host in hosts:
        for event in ("drop", "compute", "apply", "pull"):
            host.handle(event, server)
        check([server, host.view()], workload.topics)
        assert not host.unseen.any()
