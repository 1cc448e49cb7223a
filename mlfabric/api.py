"""The calls of the paper's Table 1, for training scripts that mpiexec starts.

Vectors are NumPy arrays of shape (size,), float32. In synchronous mode every rank is a worker:

    api.register_as_worker(api.Params(mode="sync"))
    total = api.all_reduce(gradient)

In the others rank 0 is the scheduler, rank 1 the server, and all further ranks are workers:

    if api.role() == "worker":
        api.register_as_worker(api.Params(mode="async"), weights)
        version = api.get(weights)
        applied = api.push(weights_after - weights_before).result()
    else:
        api.register_as_server(api.Params(mode="async"), weights)   # returns when all have left

An update is added to the model: step size and momentum are the worker's, in the update. Delays,
bounds and versions are counted in updates, rates in bytes/s.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mlfabric.engines.mpi.plan import FIRST_WORKER_RANK
from mlfabric.engines.mpi.session import PushSession, SessionSettings, SumSession, world
from mlfabric.errors import MlfabricError, SettingError

Vector = NDArray[Any]
Mode = Literal["sync", "async", "ssp"]
Role = Literal["scheduler", "server", "worker"]

POLICIES = {"sync": "mlfabric_allreduce", "async": "mlfabric_a", "ssp": "mlfabric_ssp"}


@dataclass(frozen=True)
class Params:
    """How workers and server work together; the same on every rank.

    `delay_bound`: an update that would be later than this, in versions, is dropped before it is
    sent (None: 2 (workers - 1)). `staleness`: clocks that a worker may be ahead of the slowest
    (mode ssp). `aggregation`: none, paper, or pipelined. `bytes_per_s`: nominal rate of a host's
    link, believed until rates are measured. `watchdog_s`: nothing moves for so long: the job ends.
    """

    mode: Mode = "sync"
    delay_bound: int | None = None
    staleness: int = 3
    aggregation: Literal["none", "paper", "pipelined"] = "paper"
    bytes_per_s: float = 1.25e9
    watchdog_s: float = 600.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.mode not in POLICIES:
            raise SettingError(f"mode={self.mode}: must be one of {', '.join(POLICIES)}")
        for name, least in (("delay_bound", 0), ("staleness", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise SettingError(f"{name}={value}: must be an integer, at least {least}")
        for name in ("bytes_per_s", "watchdog_s"):
            if not getattr(self, name) > 0:
                raise SettingError(f"{name}={getattr(self, name)}: must be a number, above 0")
        if self.aggregation not in ("none", "paper", "pipelined"):
            raise SettingError(
                f"aggregation={self.aggregation}: must be one of none, paper, pipelined"
            )

    def settings(self, workers: int) -> SessionSettings:
        """What the engine is told."""
        bound = 2 * (workers - 1) if self.delay_bound is None else self.delay_bound
        options: dict[str, Any] = {
            "delay_bound": bound,
            "staleness": self.staleness,
            "ordering": "shortest",
            "aggregation": self.aggregation,
            "aggregators": None,
            "aggregator_choice": "random",
            "bandwidth": "measured",
        }
        policy = POLICIES[self.mode]
        return SessionSettings(policy, options, self.bytes_per_s, self.watchdog_s, self.seed)


class _State:
    """What this process has registered as."""

    sums: SumSession | None = None
    pushes: PushSession | None = None
    on_update: Callable[[Vector, int], None] | None = None
    on_request: Callable[[str, int], None] | None = None


_state = _State()


def rank() -> int:
    """This process's number among all that mpiexec started, from 0."""
    return world()[0]


def size() -> int:
    """How many processes mpiexec started."""
    return world()[1]


def workers() -> int:
    """How many ranks are workers, in the mode that this one has registered for; else all."""
    return size() if _state.pushes is None else size() - FIRST_WORKER_RANK


def worker() -> int:
    """This worker's number among them, from 0."""
    return rank() if _state.pushes is None else rank() - FIRST_WORKER_RANK


def role() -> Role:
    """What this rank is in the modes with a server."""
    roles: tuple[Role, ...] = ("scheduler", "server", "worker")
    return roles[min(rank(), FIRST_WORKER_RANK)]


def register_as_worker(params: Params, model: Vector | None = None) -> None:
    """Join as a worker; every worker must.

    With a server, `model` is the initial model, float32 (size,), the same on every rank. Raises
    SettingError where this rank cannot be a worker, MlfabricError where it is one already.
    """
    _require_unregistered()
    if params.mode == "sync":
        _state.sums = SumSession(params.settings(size()))
        return
    session = _session(params, model)
    if session.serves:
        raise SettingError(f"rank {rank()}: is the {role()} in mode {params.mode}, not a worker")
    session.begin()
    _state.pushes = session


def register_as_server(params: Params, model: Vector) -> None:
    """Be the server, or on rank 0 the scheduler; returns when all workers have left.

    `model`, float32 (size,), is the initial model, and on the server holds the last one when the
    call returns.
    """
    _require_unregistered()
    if params.mode == "sync":
        raise SettingError("mode=sync: must be async or ssp where there is a server")
    session = _session(params, model)
    if not session.serves:
        raise SettingError(f"rank {rank()}: is a worker in mode {params.mode}, not the server")
    session.on_update, session.on_request = _state.on_update, _state.on_request
    session.serve()
    if session.last_model is not None:
        np.copyto(model, session.last_model)


def register_update_callback(call: Callable[[Vector, int], None]) -> None:
    """On the server, before it is registered: `call(model, version)` after each application.

    `model` is the server's own memory: to be read, not kept, not changed.
    """
    _state.on_update = call


def register_request_callback(call: Callable[[str, int], None]) -> None:
    """On the server, before it is registered: `call(worker, version)` as a model is sent."""
    _state.on_request = call


def get(model: Vector) -> int:
    """Wait for a model newer than the one held, fill `model`, return its version."""
    session = _pushing()
    np.copyto(model, session.pull())
    return session.version


def push(update: Vector) -> Future[bool]:
    """Hand over the update computed on the model that `get` brought last, float32 (size,).

    The handle's result tells whether it was applied (True) or dropped. `update` must stay as it
    is until then. Its norm is computed here.
    """
    return _pushing().push(update)


def all_reduce(update: Vector) -> Vector:
    """The sum of all workers' updates, in mode sync; a new vector of the same shape and dtype."""
    return all_reduce_async(update).result()


def all_reduce_async(update: Vector) -> Future[Vector]:
    """As `all_reduce`, at once; all workers must ask in the same order.

    `update` must stay as it is until the result is there.
    """
    if _state.sums is None:
        raise MlfabricError("all_reduce: must come after register_as_worker with mode sync")
    return _state.sums.sum(update)


def shutdown() -> None:
    """Leave; returns when all workers have. Nothing happens where nothing is registered."""
    for session in (_state.sums, _state.pushes):
        if session is not None:
            session.close()
    _state.sums = _state.pushes = None


def _session(params: Params, model: Vector | None) -> PushSession:
    if model is None or model.ndim != 1 or model.dtype != np.float32:
        what = "missing" if model is None else f"{model.dtype} {model.shape}"
        raise SettingError(f"model: {what}; must be float32 of shape (size,)")
    return PushSession(params.settings(max(size() - FIRST_WORKER_RANK, 1)), model)


def _pushing() -> PushSession:
    if _state.pushes is None:
        raise MlfabricError("get and push: must come after register_as_worker with a server")
    return _state.pushes


def _require_unregistered() -> None:
    if _state.sums is not None or _state.pushes is not None:
        raise MlfabricError("register: this rank is registered already; shutdown() comes first")
