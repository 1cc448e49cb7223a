"""A parameter server that applies every update as it arrives."""

from __future__ import annotations

from mlfabric.actions import Action, CommitGroup, DistributeModel, DropUpdate
from mlfabric.events import Event, HostLost, ModelRequested, TransferDone, Update, UpdateReady
from mlfabric.policies.base import PolicyContext
from mlfabric.policies.parts.steps import step_rule


class AsyncServer:
    """Commits every update as it arrives, unless it is too late, and answers requests at once.

    Its `delay_bound` is in versions; None: nothing is too late. Workers send at once.
    """

    reads_rates = False

    def __init__(self, context: PolicyContext, delay_bound: int | None = None) -> None:
        self.version = 0
        self._server = context.server
        self._delay_bound = delay_bound
        self._rule = step_rule(context.options)
        self._coming: dict[str, Update] = {}
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
                return [self._decide(self._coming.pop(transfer))]
            case HostLost(host):
                gone = [u for u in self._coming.values() if u.worker == host]
                return [self._drop(self._coming.pop(update.id)) for update in gone]
            case ModelRequested(worker, held_version):
                return [self._send_model(worker, held_version)]
        return []

    def _decide(self, update: Update) -> Action:
        before, delay = self.version, self.version - update.version
        if self._delay_bound is not None and delay > self._delay_bound:
            return self._drop(update)
        self.version += 1
        scale = 1.0 if self._rule is None else self._rule(before, delay)
        name = (update.id,)
        return CommitGroup(name, name, (update.worker,), (delay,), before, (scale,))

    def _drop(self, update: Update) -> Action:
        return DropUpdate(update.id, update.worker, self.version - update.version)

    def _send_model(self, worker: str, held_version: int) -> DistributeModel:
        self._pulls += 1
        edge = (f"pull{self._pulls}", self._server, worker)
        return DistributeModel(self.version, held_version, (edge,))
