"""The server's model: what a holder of an old version is sent gives it the new one."""

from __future__ import annotations

import numpy as np
import pytest

from mlfabric.errors import ProtocolError
from mlfabric.payload import Payload, dense, to_wire
from mlfabric.store import ModelStore


def delta(size, entries):
    return Payload(
        size, np.array(list(entries), np.int32), np.array(list(entries.values()), np.int32)
    )


def test_a_difference_brings_every_holder_up_to_date():
    rng = np.random.default_rng(0)
    store = ModelStore(rng.integers(0, 9, 200).astype(np.int32))
    old = {0: store.model.copy()}
    for version in range(1, 6):
        store.apply(delta(200, {int(i): 1 for i in rng.choice(200, 5, replace=False)}), 1)
        old[version] = store.model.copy()
    for since, model in old.items():
        payload = store.freeze(since)
        assert payload.indices is not None
        assert len(to_wire(payload)[1]) < store.model.nbytes
        payload.overwrite(model)
        np.testing.assert_array_equal(model, store.model)


def test_a_frozen_copy_does_not_change():
    store = ModelStore(np.zeros(50, np.int32))
    store.apply(delta(50, {3: 1}), 1)
    frozen = store.freeze(0)
    store.apply(delta(50, {3: 5}), 1)
    assert frozen.values.tolist() == [1]


def test_after_a_dense_update_a_copy_is_dense():
    store = ModelStore(np.zeros(50, np.float32))
    store.apply(dense(np.ones(50, np.float32)), 3)
    assert store.version == 3
    assert store.freeze(0).indices is None


def test_what_was_forgotten_is_sent_whole():
    store = ModelStore(np.zeros(50, np.int32))
    for index in range(3):
        store.apply(delta(50, {index: 1}), 1)
    store.forget_before(2)
    assert store.freeze(1).indices is None
    assert store.freeze(2).indices.tolist() == [2]


def test_an_update_of_another_size_is_refused():
    with pytest.raises(ProtocolError, match="size 3"):
        ModelStore(np.zeros(2, np.int32)).apply(delta(3, {0: 1}), 1)
