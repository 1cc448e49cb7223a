"""Asynchronous parameter server: transfers whenever ready, the network shared fairly by TCP."""

from __future__ import annotations

from typing import Literal

from mlfabric.actions import Action, CommitGroup, DistributeModel
from mlfabric.events import Event, ModelRequested, TransferDone, Update, UpdateReady
from mlfabric.policies.base import PolicyContext

PLACE: Literal["scheduler", "server"] = "server"
SENDS_AT_ONCE = True


class AsyncPs:
    """Commits every update as it arrives and answers every request at once."""

    reads_rates = False

    def __init__(self, server: str) -> None:
        self.version = 0
        self._server = server
        self._coming: dict[str, Update] = {}
        self._pulls = 0

    def handle(self, event: Event, now: float) -> list[Action]:
        """A transfer is named after the update that it brings."""
        match event:
            case UpdateReady(update):
                self._coming[update.id] = update
            case TransferDone(transfer) if transfer in self._coming:
                return [self._commit(self._coming.pop(transfer))]
            case ModelRequested(worker, held_version):
                return [self._send_model(worker, held_version)]
        return []

    def _commit(self, update: Update) -> CommitGroup:
        before, self.version = self.version, self.version + 1
        delay = before - update.version
        return CommitGroup(update.id, (update.id,), (update.worker,), (delay,), before)

    def _send_model(self, worker: str, held_version: int) -> DistributeModel:
        self._pulls += 1
        edge = (f"pull{self._pulls}", self._server, worker)
        return DistributeModel(self.version, held_version, (edge,))


def build(context: PolicyContext) -> AsyncPs:
    """The coordinator, which runs beside the server; it has no options."""
    return AsyncPs(context.server)
