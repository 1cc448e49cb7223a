"""A parameter server that applies one sum an iteration."""

from __future__ import annotations

from mlfabric.actions import Action, CommitGroup, DistributeModel, DropUpdate
from mlfabric.events import Event, HostLost, ModelRequested, TransferDone, Update, UpdateReady
from mlfabric.policies.base import PolicyContext


class SyncServer:
    """Adds up `needed` updates of the current model, then sends the new one to all that ask.

    An update of an older model came too late for its iteration: it is dropped as it arrives.
    Workers send at once.
    """

    reads_rates = False

    def __init__(self, context: PolicyContext, needed: int) -> None:
        self.version = 0
        self._server = context.server
        self._needed = needed
        self._alive = set(context.workers)
        self._coming: dict[str, Update] = {}
        self._arrived: list[Update] = []
        self._waiting: dict[str, int] = {}
        self._pulls = 0

    def memory(self) -> None:
        """The version is all."""

    def begin_at(self, version: int, memory: None) -> None:
        """Go on with a model of this version."""
        self.version = version

    def handle(self, event: Event, now: float) -> list[Action]:
        """A transfer is named after the update that it brings."""
        match event:
            case UpdateReady(update):
                self._coming[update.id] = update
            case TransferDone(transfer) if transfer in self._coming:
                return self._take(self._coming.pop(transfer))
            case HostLost(host):
                return self._go_on_without(host)
            case ModelRequested(worker, held_version):
                self._waiting[worker] = held_version
                return self._answer()
        return []

    def _go_on_without(self, worker: str) -> list[Action]:
        """One worker less is waited for; what it has sent whole is applied, too."""
        if worker not in self._alive:
            return []
        self._alive.discard(worker)
        self._needed = max(self._needed - 1, 1)
        gone = [u for u in self._coming.values() if u.worker == worker]
        actions: list[Action] = [self._drop(self._coming.pop(update.id)) for update in gone]
        self._waiting.pop(worker, None)
        if self._arrived and self._has_enough:
            actions += [self._commit(), *self._answer()]
        return actions

    @property
    def _has_enough(self) -> bool:
        """Whether so many of those that are alive have sent theirs."""
        return sum(update.worker in self._alive for update in self._arrived) >= self._needed

    def _take(self, update: Update) -> list[Action]:
        if update.version < self.version:
            return [self._drop(update)]
        self._arrived.append(update)
        if not self._has_enough:
            return []
        return [self._commit(), *self._answer()]

    def _drop(self, update: Update) -> DropUpdate:
        return DropUpdate(update.id, update.worker, self.version - update.version)

    def _commit(self) -> CommitGroup:
        summed, self._arrived = self._arrived, []
        names = tuple(update.id for update in summed)
        workers = tuple(update.worker for update in summed)
        before, self.version = self.version, self.version + len(summed)
        none = (0,) * len(names)
        return CommitGroup(names, names, workers, none, before, (1.0,) * len(names))

    def _answer(self) -> list[Action]:
        """Send the model to those that hold an older one, each a copy."""
        ready = {w: held for w, held in self._waiting.items() if held < self.version}
        if not ready:
            return []
        for worker in ready:
            del self._waiting[worker]
        edges = []
        for worker in ready:
            self._pulls += 1
            edges.append((f"pull{self._pulls}", self._server, worker))
        return [DistributeModel(self.version, min(ready.values()), tuple(edges))]
