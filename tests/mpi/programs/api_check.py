"""The calls of Table 1 on real ranks: `api_check WHAT`."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from mlfabric import api
from mlfabric.errors import MlfabricError, SettingError


def sync() -> None:
    """Sums of several kinds, a bad vector refused, nothing after the end."""
    api.register_as_worker(api.Params())
    own = np.full(50_000, api.worker() + 1.0, np.float32)
    handles = [api.all_reduce_async(own * k) for k in (1, 2, 3)]
    total = api.workers() * (api.workers() + 1) / 2
    for k, handle in zip((1, 2, 3), handles, strict=True):
        np.testing.assert_array_equal(handle.result(), np.full_like(own, k * total))
    np.testing.assert_array_equal(
        api.all_reduce(np.arange(3, dtype=np.int32)), api.size() * np.arange(3)
    )
    with pytest.raises(
        SettingError, match=r"update: float64 of shape \(3,\); must be contiguous float32"
    ):
        api.all_reduce(np.zeros(3))
    with pytest.raises(MlfabricError, match="registered already"):
        api.register_as_worker(api.Params())
    api.shutdown()
    with pytest.raises(MlfabricError, match="must come after register_as_worker"):
        api.all_reduce(own)


def unequal(mode: str) -> None:
    """Workers take unequal numbers of steps; every update that was applied is in the model."""
    model, seen, asked = np.zeros(1000, np.float32), [], []
    api.register_update_callback(lambda model, version: seen.append((version, float(model[0]))))
    api.register_request_callback(lambda worker, version: asked.append(worker))
    params = api.Params(mode=mode, staleness=1 if mode == "ssp" else None, delay_bound=100)
    if api.role() != "worker":
        api.register_as_server(params, model)
        if api.role() == "server":
            steps = sum(range(2, api.size()))
            assert seen[-1][0] == model[0] == steps, (seen, model[0], steps)
            assert set(asked) == {f"w{i + 1}" for i in range(api.size() - 2)}
        return
    api.register_as_worker(params, model)
    held = -1
    with pytest.raises(MlfabricError, match="push: must follow a get"):
        api.push(np.ones_like(model))
    for _ in range(api.worker() + 2):
        version = api.get(model)
        assert version > held
        assert model[0] == model[-1] == version
        held = version
        assert api.push(np.ones_like(model)).result()
    api.shutdown()
    assert api.worker() == api.rank() - 2


def replicated(kind: str) -> None:
    """A replica follows: it ends within the bound of the server, or has just what that has."""
    model, seen = np.zeros(1000, np.float32), []
    bound = 40.0 * np.sqrt(1000) if kind == "bounded" else None
    params = api.Params(mode="async", replication=kind, divergence_bound=bound, delay_bound=100)
    role, steps = api.role(params), 20 * (api.size() - 3)
    api.register_update_callback(lambda model, version: seen.append((version, float(model[0]))))
    if role == "replica":
        with pytest.raises(SettingError, match="rank 2: is a replica, not the server"):
            api.register_as_server(params, model)
        api.register_as_replica(params, model)
        assert all(version == value for version, value in seen)
        assert model[0] == model[-1] == seen[-1][0]
        assert steps - (40 if kind == "bounded" else 0) <= model[0] <= steps
        return
    if role != "worker":
        api.register_as_server(params, model)
        assert role == "scheduler" or model[0] == steps
        return
    api.register_as_worker(params, model)
    for _ in range(20):
        version = api.get(model)
        assert model[0] == model[-1] == version
        update = np.ones_like(model)
        handle = api.push(update)
        assert handle.result()
        update[:] = 1e6  # ours again: what the replica is still to get must not change
    api.shutdown()
    assert api.worker() == api.rank() - 3


def raising() -> None:
    """One rank's error ends all."""
    api.register_as_worker(api.Params())
    api.all_reduce(np.ones(3, np.float32))
    if api.rank() == 1:
        raise ValueError("rank 1 had enough")
    api.all_reduce(np.ones(3, np.float32))


def leaving() -> None:
    """One rank leaves while others still ask for sums."""
    api.register_as_worker(api.Params())
    for _ in range(2 if api.rank() == 1 else 3):
        api.all_reduce(np.ones(3, np.float32))
    api.shutdown()


if __name__ == "__main__":
    {
        "sync": sync,
        "async": lambda: unequal("async"),
        "ssp": lambda: unequal("ssp"),
        "chain": lambda: replicated("chain"),
        "bounded": lambda: replicated("bounded"),
        "raise": raising,
        "leave": leaving,
    }[sys.argv[1]]()
    print("all right", flush=True)
