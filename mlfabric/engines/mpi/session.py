"""A training script's end of the library: a daemon thread talks to MPI, the script calls in.

MPI is used by one thread at a time: the script's until the session begins, then the daemon's.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from mlfabric import policies
from mlfabric.engines.mpi.main import run
from mlfabric.engines.mpi.node import Node
from mlfabric.engines.mpi.plan import SCHEDULER_RANK, RankPlan
from mlfabric.engines.roles.allreduce import AllReduce
from mlfabric.errors import MlfabricError, NothingMoves, SettingError
from mlfabric.events import WorkerLeft
from mlfabric.payload import Payload, dense
from mlfabric.policies.base import PolicyContext, Replication

Vector = NDArray[Any]

SERVING = ("scheduler", "server")
REPLICA = "replica"
"""Hosts of a session that are no workers, in the order of their ranks."""

CHUNK_BYTES = 61_440
FOR_EVER_S = 1e9


@dataclass(frozen=True)
class SessionSettings:
    """What a script may say of its cluster.

    `bytes_per_s` is the nominal rate of a host's link, a first guess until rates are measured;
    `watchdog_s` how long nothing may move before the run is given up; `options` are the policy's;
    a replica, where there is one, is the host `REPLICA`.
    """

    policy: str
    options: dict[str, Any]
    bytes_per_s: float = 1.25e9
    watchdog_s: float = 600.0
    seed: int = 0
    replication: Replication | None = None

    @property
    def serving(self) -> tuple[str, ...]:
        """Hosts that are no workers where there is a server, in the order of their ranks."""
        return (*SERVING, REPLICA) if self.replication is not None else SERVING


@cache
def world() -> tuple[int, int]:
    """(this process's rank, number of ranks); MPI is asked once."""
    return MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()


def abort_on_error() -> None:
    """From now on, an error that ends this script ends the whole job, its traceback printed."""
    print_story = sys.excepthook

    def hook(*story: Any) -> None:
        print_story(*story)
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)

    sys.excepthook = hook


class Daemon:
    """A thread that owns MPI until `work()` returns; an error in it ends the whole job."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._thread = threading.Thread(target=self._run, name="mlfabric", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException:
            print(f"mlfabric: rank {world()[0]}: {traceback.format_exc()}", flush=True)
            MPI.COMM_WORLD.Abort(1)


class SumSession:
    """Sums vectors over all ranks, each of which is a worker; any thread may call."""

    def __init__(self, settings: SessionSettings) -> None:
        if policies.place(settings.policy) != "workers":
            raise SettingError(f"policy={settings.policy}: must be a synchronous sum over workers")
        self.rank, self.size = world()
        self._settings = settings
        self._asked: queue.SimpleQueue[tuple[Vector, Future[Vector]]] = queue.SimpleQueue()
        self._running: deque[Future[Vector]] = deque()
        self._closing = threading.Event()
        self._overdue_s = 0.0
        self._begun = 0
        hosts = tuple(f"w{rank + 1}" for rank in range(self.size))
        self._plan = _plan(hosts, hosts, settings, model_bytes=0)
        self._node: Node | None = None
        self._daemon = Daemon(self._serve)

    def sum(self, vector: Vector) -> Future[Vector]:
        """Ask for the sum over all ranks, which must ask for theirs in the same order.

        `vector`, float32 or int32 of shape (size,), must stay as it is until the result is there.
        """
        if self._closing.is_set():
            raise MlfabricError("mlfabric: all_reduce after shutdown")
        future: Future[Vector] = Future()
        self._asked.put((vector, future))
        if self._node is not None:
            self._node.news.tell()
        return future

    def close(self) -> None:
        """Leave; returns when all ranks have."""
        self._closing.set()
        if self._node is not None:
            self._node.news.tell()
        self._daemon.join()

    def _serve(self) -> None:
        node = self._node = Node.of_world(self._plan)
        left: dict[str, int] = {}
        node.on("left", left.__setitem__)
        node.sums_densely()
        how = policies.module(self._settings.policy).build(node.plan.context)
        sums = AllReduce(node, how, self._summed)
        node.start_clock()
        while not self._idle():
            node.run_until(lambda: not self._asked.empty() or self._closing.is_set())
            if not self._asked.empty():
                vector, future = self._asked.get()
                self._running.append(future)
                sums.start(dense(vector))
                self._begun += 1
            self._overdue_s = time.monotonic() + self._settings.watchdog_s
            node.run_until(lambda: not self._running or self._is_hopeless(left))
            if self._running:
                raise NothingMoves(self._story(left))
        node.send_all("left", self._begun)
        node.run_until(lambda: len(left) == self.size)
        node.close()

    def _is_hopeless(self, left: Mapping[str, int]) -> bool:
        """Whether the sum asked for last will not come: somebody has left before it."""
        too_early = any(count < self._begun for count in left.values())
        return too_early or time.monotonic() > self._overdue_s

    def _story(self, left: Mapping[str, int]) -> str:
        begun = self._begun
        gone = [f"{host} left after {count}" for host, count in left.items() if count < begun]
        if gone:
            return f"all-reduce {begun} cannot be made: {', '.join(gone)}; all must ask for as many"
        return f"all-reduce: no sum within {self._settings.watchdog_s:g} s"

    def _idle(self) -> bool:
        return self._closing.is_set() and self._asked.empty() and not self._running

    def _summed(self, total: Payload) -> None:
        self._running.popleft().set_result(total.values)


class PushSession:
    """A worker of a policy with a server: pulls models, pushes updates, from the script's thread.

    The first ranks are the scheduler, the server and the replica, if any: `serve` is theirs, and
    returns when all workers have left. `model` is the initial one, float32 (size,), the same on
    every rank.
    """

    def __init__(self, settings: SessionSettings, model: Vector) -> None:
        if policies.is_collective(settings.policy):
            raise SettingError(f"policy={settings.policy}: must be one with a server")
        self.rank, self.size = world()
        serving = settings.serving
        self.first_worker = len(serving)
        if self.size < self.first_worker + 1:
            raise SettingError(
                f"mpiexec -n {self.size}: must be at least {self.first_worker + 1} with"
                f" policy={settings.policy}: a {', a '.join(serving)} and the workers"
            )
        self._model = model.copy()
        self._keeps = settings.replication is not None and settings.replication.kind == "bounded"
        self._holds_view = False
        self._trainer = HeldTrainer()
        self._closing = threading.Event()
        workers = tuple(f"w{number + 1}" for number in range(self.size - self.first_worker))
        self._plan = _plan((*serving, *workers), workers, settings, model.nbytes)
        self._node: Node | None = None
        self._daemon: Daemon | None = None
        self._left: set[str] = set()
        self._gave_notice = False
        self._handles: dict[int, Future[bool]] = {}
        self._pushed = 0
        self.on_update: Callable[[Vector, int], None] | None = None
        self.on_request: Callable[[str, int], None] | None = None
        self.last_model: Vector | None = None

    @property
    def version(self) -> int:
        """The version of the model pulled last."""
        assert self._node is not None
        return self._node.held_version

    @property
    def serves(self) -> bool:
        """Whether this rank is no worker."""
        return self.rank < self.first_worker

    def serve(self) -> None:
        """Play the part of this rank, which is no worker, until all workers have left."""
        self._carry_out()

    def begin(self) -> None:
        """Join as a worker."""
        self._daemon = Daemon(self._carry_out)

    def pull(self) -> Vector:
        """The model to compute the next update on, to be left as it is; waits for a newer one."""
        view = self._trainer.next_view()
        self._holds_view = True
        return view

    def push(self, update: Vector) -> Future[bool]:
        """Hand over the update that was computed on the model pulled last.

        The result tells whether it was applied; False, too, where the run ends before.
        """
        if not self._holds_view:
            raise MlfabricError("push: must follow a get, each update another model")
        self._holds_view = False
        handle: Future[bool] = Future()
        self._handles[self._pushed] = handle
        self._pushed += 1
        self._trainer.push(update.copy() if self._keeps else update)
        return handle

    def close(self) -> None:
        """Leave; returns when all workers have."""
        self._closing.set()
        if self._node is not None:
            self._node.news.tell()
        if self._daemon is not None:
            self._daemon.join()
        for handle in self._handles.values():
            handle.set_result(False)

    def _settled(self, iteration: int, applied: bool) -> None:
        self._handles.pop(iteration).set_result(applied)

    def _applied(self, model: Vector, version: int) -> None:
        self.last_model = model
        if self.on_update is not None:
            self.on_update(model, version)

    def _requested(self, worker: str, version: int) -> None:
        if self.on_request is not None:
            self.on_request(worker, version)

    def _carry_out(self) -> None:
        run(self._plan, lambda worker: self._trainer, lambda: self._model.copy(), self._attend)

    def _attend(self, node: Node) -> None:
        self._node = node
        node.on_settled = self._settled
        node.on_applied = self._applied
        node.on_sent = self._requested
        if self.rank == SCHEDULER_RANK:
            node.on("left", lambda src, body: self._left.add(src))
            node.every_turn(lambda: self._stop_when_left(node))
        else:
            node.every_turn(lambda: self._leave(node))

    def _stop_when_left(self, node: Node) -> bool:
        over = len(self._left) == self.size - self.first_worker
        if over and not node.stopping and node.begun:
            node.send_all("stop")
            return True
        return False

    def _leave(self, node: Node) -> bool:
        """Tell the scheduler once; when all have left, end the computation under way."""
        if node.stopping:
            self._trainer.give_up()
        elif self._closing.is_set() and not self._handles and not self._gave_notice:
            self._gave_notice = True
            node.report(WorkerLeft(node.host), 0)
            node.send(self._plan.scheduler, "left")
        return False


class HeldTrainer:
    """A worker's computation in another's hands: the view is given out, an update is waited for."""

    def __init__(self) -> None:
        self._views: queue.SimpleQueue[Vector] = queue.SimpleQueue()
        self._updates: queue.SimpleQueue[Vector | None] = queue.SimpleQueue()

    def warm_up(self) -> None:
        """Nothing is to be warmed up here."""

    def load(self) -> None:
        """Nothing is to be loaded here."""

    def compute(self, view: Vector) -> tuple[None, Vector]:
        """Called by the engine: hand out the view, wait for the update."""
        self._views.put(view)
        update = self._updates.get()
        return None, np.zeros_like(view) if update is None else update

    def state(self) -> None:
        """What the script has is its own to save."""

    def restore(self, state: None) -> None:
        """Nothing was saved."""

    def next_view(self) -> Vector:
        """Called by the script: the next model; blocks until it is there."""
        return self._views.get()

    def push(self, update: Vector) -> None:
        """Called by the script: the update computed on the last view."""
        self._updates.put(update)

    def give_up(self) -> None:
        """Let the engine's call return: what is still being computed counts for nothing."""
        self._updates.put(None)


def _plan(
    hosts: tuple[str, ...],
    workers: tuple[str, ...],
    settings: SessionSettings,
    model_bytes: int,
) -> RankPlan:
    """A run without an emulated cluster, data or end."""
    context = PolicyContext(
        server="server",
        workers=workers,
        line_bytes_per_s=dict.fromkeys(hosts, settings.bytes_per_s),
        model_bytes=model_bytes,
        chunk_bytes=CHUNK_BYTES,
        straggler_period_s=5.0,
        seed=settings.seed,
        options=settings.options,
        replication=settings.replication,
    )
    return RankPlan(
        hosts=hosts,
        policy=settings.policy,
        context=context,
        conserved=False,
        step_scale=1.0,
        nominal_s=FOR_EVER_S,
        computation_s=lambda worker, iteration: 0.0,
        max_seconds=FOR_EVER_S,
        snapshot_interval_s=FOR_EVER_S,
        run_dir=None,
        read_rates=None,
        watchdog_s=settings.watchdog_s,
    )
