"""A worker's computation thread: computes updates, and asks its daemon to exchange them."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlfabric.engines.mpi.node import Node
from mlfabric.engines.mpi.plan import FIRST_WORKER_RANK, Trainer
from mlfabric.payload import Payload
from mlfabric.view import ModelView


class Stopped(Exception):
    """The run is over; the computation thread ends."""


@dataclass(frozen=True)
class Ask:
    """A request of the computation thread to its daemon."""

    kind: str
    body: Any


class Computation:
    """Runs `exchange(self, iteration, update)` after every update, until the run stops.

    The daemon takes requests from `asked` and answers each with `answer`; while an answer is due
    the thread waits, so the daemon may read what was handed over.
    """

    def __init__(
        self,
        node: Node,
        trainer: Trainer,
        view: ModelView,
        exchange: Callable[[Computation, int, Payload], None],
    ) -> None:
        self.view = view
        self.asked: queue.SimpleQueue[Ask] = queue.SimpleQueue()
        self.error: BaseException | None = None
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._node = node
        self._trainer = trainer
        self._exchange = exchange
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="computation", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Interrupt whatever the thread waits for."""
        if not self._stop.is_set():
            self._stop.set()
            self._answers.put(Stopped())

    @property
    def ended(self) -> bool:
        """Whether the thread has ended; raises what ended it, if that was an error."""
        if self.error is not None:
            raise self.error
        return not self._thread.is_alive()

    def ask(self, kind: str, body: Any = None) -> Any:
        """Hand a request to the daemon and wait for its answer; raises Stopped."""
        self.asked.put(Ask(kind, body))
        self._node.wake.set()
        answer = self._answers.get()
        if isinstance(answer, Stopped):
            raise answer
        return answer

    def answer(self, value: Any) -> None:
        """Called by the daemon."""
        self._answers.put(value)

    def _run(self) -> None:
        try:
            self._trainer.load()
            iteration = 0
            while True:
                self._exchange(self, iteration, self._compute(iteration))
                iteration += 1
        except Stopped:
            pass
        except BaseException as error:  # handed to the daemon, which ends the job
            self.error = error
        self._node.wake.set()

    def _compute(self, iteration: int) -> Payload:
        """One real update, then a wait until its emulated time has passed."""
        node, plan = self._node, self._node.plan
        node.waiting_for = f"its computation of iteration {iteration}"
        started, begun = node.now(), time.monotonic()
        indices, values = self._trainer.compute(self.view.values)
        real = time.monotonic() - begun
        emulated = plan.computation_s(node.rank - FIRST_WORKER_RANK, iteration)
        if self._stop.wait(max(emulated - real, 0.0)):
            raise Stopped
        node.records.add(
            "computation",
            worker=node.rank - FIRST_WORKER_RANK,
            iteration=iteration,
            started_s=started,
            real_s=real,
            emulated_s=emulated,
            overran=real > plan.nominal_s,
        )
        node.activity += 1
        return Payload(len(self.view.values), indices, values).scaled(plan.step_scale)
