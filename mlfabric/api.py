"""The calls of the paper's Table 1, for training scripts that mpiexec starts.

Vectors are NumPy arrays of shape (size,), float32. In synchronous mode every rank is a worker:

    api.register_as_worker(api.Params(mode="sync"))
    total = api.all_reduce(gradient)

In the others rank 0 is the scheduler, rank 1 the server, with replication rank 2 the replica, and
all further ranks are workers:

    params = api.Params(mode="async", replication="bounded")
    if api.role(params) == "worker":
        api.register_as_worker(params, weights)
        version = api.get(weights)
        applied = api.push(weights_after - weights_before).result()
    elif api.role(params) == "replica":
        api.register_as_replica(params, weights)
    else:
        api.register_as_server(params, weights)   # as a replica does, returns when all have left

An update is added to the model: step size and momentum are the worker's, in the update. Delays,
bounds and versions are counted in updates, rates in bytes/s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, fields
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from mlfabric.engines.mpi.session import (
    REPLICA,
    SERVING,
    PushSession,
    SessionSettings,
    SumSession,
    abort_on_error,
    world,
)
from mlfabric.errors import MlfabricError, SettingError
from mlfabric.policies.base import Replication

Vector = NDArray[Any]
Mode = Literal["sync", "async", "ssp"]
Role = Literal["scheduler", "server", "replica", "worker"]

POLICIES = {"sync": "mlfabric_allreduce", "async": "mlfabric_a", "ssp": "mlfabric_ssp"}


@dataclass(frozen=True)
class Params:
    """How workers and server work together; the same on every rank.

    `delay_bound` (async, ssp): an update that would be later than this, in versions, is dropped
    before it is sent; None: 2 (workers - 1). `staleness` (ssp): clocks that a worker may be ahead
    of the slowest; None: 3. `aggregation` (async, ssp): none, paper or pipelined; None: paper.
    `replication` (async, ssp): none; chain: the server forwards every update to a replica, and
    waits; bounded: workers send it theirs, and it stays within `divergence_bound` (L2 norm of the
    models' difference) of the server; None: eight times the norms of the first updates, one a
    worker.
    `bytes_per_s`: nominal rate of a host's link, believed until rates are measured. `watchdog_s`:
    nothing moves for so long: the job ends. Raises SettingError for a bad one, or one that its mode
    has no use for.
    """

    mode: Mode = "sync"
    delay_bound: int | None = None
    staleness: int | None = None
    aggregation: Literal["none", "paper", "pipelined"] | None = None
    replication: Literal["none", "chain", "bounded"] = "none"
    divergence_bound: float | None = None
    bytes_per_s: float = 1.25e9
    watchdog_s: float = 600.0
    seed: int = 0

    def __post_init__(self) -> None:
        _one_of("mode", self.mode, tuple(POLICIES))
        for name, least in (("delay_bound", 0), ("staleness", 0)):
            if getattr(self, name) is not None:
                _at_least(name, getattr(self, name), least)
        _at_least("seed", self.seed, 0)
        for name in ("bytes_per_s", "watchdog_s"):
            _above_zero(name, getattr(self, name))
        self._check_replication()
        if self.aggregation is not None:
            _one_of("aggregation", self.aggregation, ("none", "paper", "pipelined"))
        for name, modes in _MODES_OF.items():
            if getattr(self, name) is not None and self.mode not in modes:
                where = " or ".join(modes)
                raise SettingError(
                    f"{name}={getattr(self, name)}: must be None but in mode {where}"
                )

    def _check_replication(self) -> None:
        _one_of("replication", self.replication, ("none", "chain", "bounded"))
        if self.replication != "none" and self.mode == "sync":
            raise SettingError(
                f"replication={self.replication}: must be none but in mode async or ssp"
            )
        if self.divergence_bound is not None:
            _above_zero("divergence_bound", self.divergence_bound)
            if self.replication != "bounded":
                raise SettingError(
                    f"divergence_bound={self.divergence_bound}: must be None but with"
                    " replication=bounded"
                )

    def serving(self) -> tuple[str, ...]:
        """Roles of the first ranks, which are no workers; the same in `settings`."""
        if self.mode == "sync":
            return ()
        return SERVING if self.replication == "none" else (*SERVING, REPLICA)

    def settings(self, workers: int) -> SessionSettings:
        """What the engine is told."""
        options: dict[str, Any] = {
            "delay_bound": 2 * (workers - 1) if self.delay_bound is None else self.delay_bound,
            "staleness": 3 if self.staleness is None else self.staleness,
            "ordering": "shortest",
            "aggregation": self.aggregation or "paper",
            "aggregators": None,
            "aggregator_choice": "random",
            "bandwidth": "measured",
            "probes": False,
        }
        policy = POLICIES[self.mode]
        # Plain numbers cross the wire: NumPy's are not taken for such.
        bound = None if self.divergence_bound is None else float(self.divergence_bound)
        replication = (
            None if self.replication == "none" else Replication(REPLICA, self.replication, bound)
        )
        return SessionSettings(
            policy, options, self.bytes_per_s, self.watchdog_s, self.seed, replication
        )

    @classmethod
    def of(cls, mode: Mode, settings: Mapping[str, Any]) -> Params:
        """From keyword arguments; SettingError for an unknown one."""
        known = [field.name for field in fields(cls)]
        if strangers := sorted(set(settings) - set(known)):
            raise SettingError(f"{strangers[0]}: unknown setting; known: {', '.join(known)}")
        return cls(mode=mode, **settings)


_MODES_OF = {
    "delay_bound": ("async", "ssp"),
    "staleness": ("ssp",),
    "aggregation": ("async", "ssp"),
}


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingError(f"{name}={value}: must be one of {', '.join(allowed)}")


def _above_zero(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise SettingError(f"{name}={value}: must be a number, above 0")


def _at_least(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SettingError(f"{name}={value}: must be an integer, at least {least}")


class _State:
    """What this process has registered as."""

    first_worker = 0
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
    """How many ranks are workers, in the mode that this one registered for last; else all."""
    return size() - _state.first_worker


def worker() -> int:
    """This worker's number among them, from 0."""
    return rank() - _state.first_worker


def role(params: Params | None = None) -> Role:
    """What this rank is under these parameters; without, in a mode with a server and no replica."""
    serving = SERVING if params is None else params.serving()
    return cast(Role, (*serving, "worker")[min(rank(), len(serving))])


def register_as_worker(params: Params, model: Vector | None = None) -> None:
    """Join as a worker; every worker must.

    With a server, `model` is the initial model, float32 (size,), the same on every rank. Raises
    SettingError where this rank cannot be a worker, MlfabricError where it is one already.
    """
    _require_unregistered()
    abort_on_error()
    if params.mode == "sync":
        _state.first_worker = 0
        _state.sums = SumSession(params.settings(size()))
        return
    session = _session(params, model)
    if session.serves:
        raise SettingError(f"rank {rank()}: is the {role(params)}, not a worker")
    session.begin()
    _state.pushes, _state.first_worker = session, session.first_worker


def register_as_server(params: Params, model: Vector) -> None:
    """Be the server, or on rank 0 the scheduler; returns when all workers have left.

    `model`, float32 (size,), is the initial model, and on the server holds the last one when the
    call returns. Raises SettingError where this rank is neither.
    """
    _serve(params, model, ("scheduler", "server"))


def register_as_replica(params: Params, model: Vector) -> None:
    """Follow the server; returns when all workers have left.

    `model`, float32 (size,), is the initial model, and holds the replica's last one when the call
    returns: the server's (chain), or one within the bound of it (bounded) [paper, Fig. 3]. Raises
    SettingError where this rank is not the replica.
    """
    _serve(params, model, ("replica",))


def serve(params: Params, model: Vector) -> None:
    """Be whatever this rank is that is no worker: scheduler, server or replica."""
    _serve(params, model, ("scheduler", "server", "replica"))


def _serve(params: Params, model: Vector, roles: tuple[Role, ...]) -> None:
    _require_unregistered()
    if params.mode == "sync":
        raise SettingError("mode=sync: must be async or ssp where there is a server")
    session = _session(params, model)
    if role(params) not in roles:
        raise SettingError(f"rank {rank()}: is a {role(params)}, not the {roles[-1]}")
    session.on_update, session.on_request = _state.on_update, _state.on_request
    session.serve()
    if session.last_model is not None:
        np.copyto(model, session.last_model)


def register_update_callback(call: Callable[[Vector, int], None]) -> None:
    """On a server or replica, before it is registered: `call(model, version)` after each change.

    `model` is its own memory: to be read, not kept, not changed.
    """
    _state.on_update = call


def register_request_callback(call: Callable[[str, int], None]) -> None:
    """On the server, before it is registered: `call(worker, version)` as a model is sent."""
    _state.on_request = call


def get(model: Vector) -> int:
    """Wait for a model newer than the one held, fill `model`, return its version."""
    session = _pushing()
    _check_vector("model", model, (np.float32,))
    np.copyto(model, session.pull())
    return session.version


def push(update: Vector) -> Future[bool]:
    """Hand over the update computed on the model that `get` brought last, float32 (size,).

    The handle's result tells whether it was applied (True) or dropped. `update` must stay as it
    is until then. Its norm is computed here. Raises SettingError for another kind of vector,
    MlfabricError where no `get` came since the last `push`.
    """
    _check_vector("update", update, (np.float32,))
    return _pushing().push(update)


def all_reduce(update: Vector) -> Vector:
    """The sum of all workers' updates, in mode sync; a new vector of the same shape and dtype.

    float32 or int32, shape (size,), contiguous; SettingError for another kind of vector.
    """
    return all_reduce_async(update).result()


def all_reduce_async(update: Vector) -> Future[Vector]:
    """As `all_reduce`, at once; all workers must ask in the same order.

    `update` must stay as it is until the result is there.
    """
    if _state.sums is None:
        raise MlfabricError("all_reduce: must come after register_as_worker with mode sync")
    _check_vector("update", update, (np.float32, np.int32))
    return _state.sums.sum(update)


def shutdown() -> None:
    """Leave; returns when all workers have. Nothing happens where nothing is registered."""
    for session in (_state.sums, _state.pushes):
        if session is not None:
            session.close()
    _state.sums = _state.pushes = None


def _session(params: Params, model: Vector | None) -> PushSession:
    if model is None:
        raise SettingError("model: missing; must be float32 of shape (size,)")
    _check_vector("model", model, (np.float32,))
    return PushSession(params.settings(max(size() - len(params.serving()), 1)), model)


def _check_vector(name: str, vector: Vector, dtypes: tuple[type, ...]) -> None:
    if not isinstance(vector, np.ndarray):
        raise SettingError(f"{name}: {type(vector).__name__}; must be a NumPy array")
    fits = vector.ndim == 1 and vector.dtype in dtypes and vector.flags.c_contiguous
    if not fits:
        kinds = " or ".join(np.dtype(dtype).name for dtype in dtypes)
        what = f"{vector.dtype} of shape {vector.shape}"
        raise SettingError(f"{name}: {what}; must be contiguous {kinds} of shape (size,)")


def _pushing() -> PushSession:
    if _state.pushes is None:
        raise MlfabricError("get and push: must come after register_as_worker with a server")
    return _state.pushes


def _require_unregistered() -> None:
    if _state.sums is not None or _state.pushes is not None:
        raise MlfabricError("register: this rank is registered already; shutdown() comes first")
