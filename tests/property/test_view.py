"""Counts are conserved: whatever is dropped or on its way, view = applied + own pending."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlfabric.payload import Payload, dense
from mlfabric.store import ModelStore
from mlfabric.view import ModelView

SIZE = 40


@given(
    st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans()), max_size=30),
    st.integers(0, 99),
)
def test_views_hold_all_applied_and_own_updates(steps, seed):
    """Each step: a worker pushes; its update is applied or dropped; it may pull a difference."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 5, SIZE).astype(np.int32)
    store = ModelStore(start.copy())
    views = [ModelView(start.copy(), conserved=True) for _ in range(3)]
    own = [np.zeros(SIZE, np.int64) for _ in range(3)]
    applied = [np.zeros(SIZE, np.int64) for _ in range(3)]
    included = [-1] * 3
    for iteration, (worker, drop, pull) in enumerate(steps):
        indices = np.sort(rng.choice(SIZE, 3, replace=False)).astype(np.int32)
        update = Payload(SIZE, indices, rng.integers(-3, 4, 3).astype(np.int32))
        update.add_to(own[worker])
        pushed = views[worker].outgoing(iteration, update)
        if drop:
            views[worker].dropped(iteration)
        else:
            store.apply(pushed, 1)
            pushed.add_to(applied[worker])
            included[worker] = iteration
            np.testing.assert_array_equal(applied[worker], own[worker])
        if pull:
            view = views[worker]
            view.pulled(store.freeze(view.version), store.version, included[worker])
            pending = own[worker] - applied[worker]
            np.testing.assert_array_equal(view.values, store.model + pending)
    np.testing.assert_array_equal(store.model, start + sum(applied))


def test_gradients_are_not_in_the_view_until_they_are_pulled():
    view = ModelView(np.zeros(2, np.float32), conserved=False)
    view.outgoing(0, dense(np.ones(2, np.float32)))
    assert view.values.tolist() == [0.0, 0.0]


def test_a_sum_holds_the_own_update_once():
    view = ModelView(np.zeros(2, np.int32), conserved=True)
    own = view.outgoing(0, dense(np.array([1, 0], np.int32)))
    view.summed(Payload(2, None, own.values + np.array([0, 5], np.int32)), 2)
    assert view.values.tolist() == [1, 5]
    assert view.version == 2
