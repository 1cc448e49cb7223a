"""Transfers from when they may start to when they have ended: waiting, running, cancelled."""

from __future__ import annotations

from mlfabric.actions import Action, CancelTransfer
from mlfabric.planning.loads import Key, LinkLoads, Transfer
from mlfabric.planning.queue import StartQueue


class Dispatch:
    """What waits for room on links, and what runs there."""

    def __init__(self, loads: LinkLoads) -> None:
        self._loads = loads
        self._queue = StartQueue(loads)
        self._running: dict[str, Transfer] = {}

    def add(self, transfer: Transfer, key: Key) -> None:
        """It may start as soon as its links have room; no two transfers have the same key."""
        self._queue.add(transfer, key)

    def withdraw(self, transfer: Transfer) -> None:
        """It waits no longer; nothing happens where it does not wait."""
        self._queue.remove(transfer)

    def next(self) -> Transfer | None:
        """The next one that its links have room for; start it."""
        return self._queue.pop()

    def start(self, transfer: Transfer, now: float) -> None:
        """It runs from now on."""
        self._loads.start(transfer, now)
        self._running[transfer.id] = transfer

    def running(self, name: str) -> Transfer | None:
        """The transfer of this name, if it runs."""
        return self._running.get(name)

    def ended(self, name: str) -> Transfer | None:
        """It has ended; None where it was cancelled while its last bytes were on the wire."""
        return self._running.pop(name, None)

    def cancel(self, transfer: Transfer) -> list[Action]:
        """It is not wanted any more, whether it waits, runs or has arrived."""
        self._loads.stop(transfer.id)
        self._queue.remove(transfer)
        self._running.pop(transfer.id, None)
        if transfer.started_s is None:
            return []
        return [CancelTransfer(transfer.id, transfer.src, transfer.dst)]

    def rate_changed(self, row: int) -> None:
        """A link is believed to carry something else."""
        self._queue.rate_changed(row)
