"""Stale synchronous parallel: no worker runs far ahead of the slowest [paper, SSP]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from mlfabric.actions import Action, CommitGroup, DropUpdate
from mlfabric.events import Event, HostLost, ModelRequested, WorkerLeft
from mlfabric.policies.base import AtLeast, Coordinator, PolicyContext, SumsOnDemand


@dataclass(frozen=True)
class StalenessOptions:
    """`staleness`: how many clocks a worker may be ahead of the slowest."""

    staleness: Annotated[int, AtLeast(0)]


class StalenessGate:
    """Holds back the model requests of workers that are too far ahead, whatever coordinates.

    A worker's clock counts its updates that were applied or dropped.
    """

    def __init__(self, inner: Coordinator, context: PolicyContext) -> None:
        self._inner = inner
        self._staleness: int = context.options["staleness"]
        self._clocks = dict.fromkeys(context.workers, 0)
        self._slowest = 0
        self._held: dict[str, ModelRequested] = {}

    @property
    def version(self) -> int:
        return self._inner.version

    @property
    def reads_rates(self) -> bool:
        return self._inner.reads_rates

    def memory(self) -> Any:
        """That of the inner coordinator: clocks begin anew, all alike."""
        return self._inner.memory()

    def begin_at(self, version: int, memory: Any) -> None:
        """Go on with a model of this version."""
        self._inner.begin_at(version, memory)

    def sum_next(self) -> None:
        """As the inner coordinator."""
        if isinstance(self._inner, SumsOnDemand):
            self._inner.sum_next()

    def handle(self, event: Event, now: float) -> list[Action]:
        """As the inner coordinator, less what is held, with what may now go on."""
        if isinstance(event, ModelRequested) and self._is_ahead(event.worker):
            self._held[event.worker] = event
            return []
        if isinstance(event, WorkerLeft | HostLost):
            gone = event.worker if isinstance(event, WorkerLeft) else event.host
            self._clocks.pop(gone, None)
            self._held.pop(gone, None)
            self._slowest = min(self._clocks.values(), default=0)
        actions = self._settled(self._inner.handle(event, now))
        while (request := self._released()) is not None:
            actions += self._settled(self._inner.handle(request, now))
        return actions

    def _is_ahead(self, worker: str) -> bool:
        return self._clocks.get(worker, 0) > self._slowest + self._staleness

    def _released(self) -> ModelRequested | None:
        """A held request of a worker that is ahead no longer."""
        worker = next((worker for worker in self._held if not self._is_ahead(worker)), None)
        return None if worker is None else self._held.pop(worker)

    def _settled(self, actions: list[Action]) -> list[Action]:
        for action in actions:
            match action:
                case CommitGroup():
                    self._tick(action.workers)
                case DropUpdate():
                    self._tick((action.worker,))
        return actions

    def _tick(self, workers: tuple[str, ...]) -> None:
        present = [worker for worker in workers if worker in self._clocks]
        before = min((self._clocks[worker] for worker in present), default=-1)
        for worker in present:
            self._clocks[worker] += 1
        if before == self._slowest:
            self._slowest = min(self._clocks.values())
