"""A worker's computation thread: one update at a time, each as long as the emulation says."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from mlfabric.engines.plan import Trainer
from mlfabric.payload import Payload


@dataclass(frozen=True)
class Computed:
    """An update, and how long it really took to compute."""

    iteration: int
    payload: Payload
    started_s: float
    real_s: float
    emulated_s: float


class Computation:
    """Computes what it is asked to in a thread of its own; its daemon fetches the results.

    The trainer is loaded first, unless it is `loaded`. `emulated_s(iteration)` is how long a
    computation takes; `now` the run's clock; `wake` is called
    when there is a result, or an error.
    """

    def __init__(
        self,
        trainer: Trainer,
        emulated_s: Callable[[int], float],
        now: Callable[[], float],
        wake: Callable[[], None],
        *,
        loaded: bool,
    ) -> None:
        self._trainer = trainer
        self._loaded = loaded
        self._emulated_s = emulated_s
        self._now = now
        self._wake = wake
        self._asked: queue.SimpleQueue[tuple[int, NDArray[Any]] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Computed] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="computation", daemon=True)

    def ask(self, iteration: int, view: NDArray[Any]) -> None:
        """Compute an update from `view`, which nobody may change before the result is fetched."""
        self._asked.put((iteration, view))
        if self._thread.ident is None:
            self._thread.start()

    def fetch(self) -> Computed | None:
        """The next result if there is one; raises what ended the thread, if that was an error."""
        if self._error is not None:
            raise self._error
        try:
            return self._done.get_nowait()
        except queue.Empty:
            return None

    def stop(self) -> None:
        """Interrupt whatever the thread waits for."""
        self._stop.set()
        self._asked.put(None)

    @property
    def ended(self) -> bool:
        """Whether the thread has ended, or never began; raises what ended it, if an error."""
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            if not self._loaded:
                self._trainer.load()
            while (asked := self._asked.get()) is not None and not self._stop.is_set():
                self._compute(*asked)
        except BaseException as error:  # handed to the daemon, which ends the job
            self._error = error
        self._wake()

    def _compute(self, iteration: int, view: NDArray[Any]) -> None:
        """One real update, then a wait until its emulated time has passed."""
        started_s, begun = self._now(), time.monotonic()
        indices, values = self._trainer.compute(view)
        real_s = time.monotonic() - begun
        emulated_s = self._emulated_s(iteration)
        if not self._stop.wait(max(emulated_s - real_s, 0.0)):
            payload = Payload(len(view), indices, values)
            self._done.put(Computed(iteration, payload, started_s, real_s, emulated_s))
            self._wake()
