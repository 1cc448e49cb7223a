"""Momentum of sums, worked out by hand."""

from __future__ import annotations

import numpy as np

from mlfabric.momentum import Momentum
from mlfabric.payload import Payload, dense
from mlfabric.store import ModelStore
from mlfabric.view import ModelView

ONES = dense(np.ones(3, np.float32))


def test_the_velocity_is_what_is_applied():
    momentum = Momentum(0.5)
    steps = [momentum.step(ONES).values.copy() for _ in range(3)]
    np.testing.assert_array_equal([step[0] for step in steps], [1.0, 1.5, 1.75])


def test_without_a_factor_an_update_stays_itself():
    sparse = Payload(3, np.array([1], np.int32), np.array([2], np.int32))
    assert Momentum().step(sparse) is sparse


def test_server_and_workers_apply_the_same():
    store = ModelStore(np.zeros(3, np.float32), momentum=0.9)
    view = ModelView(np.zeros(3, np.float32), conserved=False, momentum=0.9)
    for _ in range(5):
        store.apply(ONES, 4)
        view.summed(ONES, 4)
    np.testing.assert_array_equal(store.model, view.values)
    assert store.version == view.version == 20
