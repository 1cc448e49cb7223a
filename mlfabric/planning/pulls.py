"""Workers that wait for a newer model, and the trees that bring it to them [ours]."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mlfabric.actions import DistributeModel
from mlfabric.planning.distribution import plan_tree
from mlfabric.planning.loads import START_SHARE, LinkLoads, Transfer
from mlfabric.planning.settings import SchedulerSettings
from mlfabric.topology import Link

NOTHING = -1
"""As if that version were held, of whoever is to get a whole model."""


class Pulls:
    """Requests for models, answered together once the server's link is free."""

    def __init__(self, settings: SchedulerSettings, loads: LinkLoads, names: Iterator[str]) -> None:
        self._server = settings.server
        self._chunk_bytes = settings.chunk_bytes
        self._loads = loads
        self._names = names
        self._egress = loads.network.link_row[Link(settings.server, "egress")]
        self._held: dict[str, int] = {}
        self._coming: dict[str, tuple[Transfer, int]] = {}
        self._strangers: set[str] = set()
        self._again: set[str] = set()
        self._bytes = float(settings.model_bytes)

    def ask(self, worker: str, held_version: int) -> None:
        """A worker waits for a model newer than the one that it holds."""
        self._held[worker] = NOTHING if worker in self._strangers else held_version
        self._strangers.discard(worker)

    def again(self, workers: Iterable[str]) -> None:
        """What these had computed is given up: their next model need not be a newer one."""
        self._again.update(workers)

    def brought(self, transfer: Transfer, n_bytes: int) -> None:
        """A model took so many bytes: the next one is expected to."""
        self._bytes = float(max(n_bytes, 1))
        if self._coming.get(transfer.dst, (None,))[0] is transfer:
            del self._coming[transfer.dst]

    def lose(self, host: str) -> list[Transfer]:
        """Models that will not arrive without this host; their receivers wait for others."""
        self._held.pop(host, None)
        broken: list[Transfer] = []
        for transfer, held in list(self._coming.values()):  # parents before children
            above = any(source in broken for source in transfer.inputs)
            if above or host in (transfer.src, transfer.dst):
                broken.append(transfer)
                del self._coming[transfer.dst]
                if transfer.dst != host:
                    self._held[transfer.dst] = held
        return broken

    def moved(self, server: str, workers: Iterable[str]) -> None:
        """Another host is the server: it does not know what workers hold, and sends all of it."""
        self._server = server
        self._egress = self._loads.network.link_row[Link(server, "egress")]
        self._held = dict.fromkeys(self._held, NOTHING)
        self._strangers = set(workers).difference(self._held)

    def answer(self, version: int, now: float) -> tuple[DistributeModel, list[Transfer]] | None:
        """What brings this version to all that wait for it, and its transfers in order."""
        receivers = self._receivers(version)
        if not receivers:
            return None
        held = {worker: self._held.pop(worker) for worker in receivers}
        self._again.difference_update(receivers)
        beside = [worker for worker in receivers if worker == self._server]
        away = [worker for worker in receivers if worker != self._server]
        transfers = self._transfers(away, now)
        self._coming.update({t.dst: (t, held[t.dst]) for t in transfers})
        hops = [(next(self._names), self._server, worker) for worker in beside]
        hops += [(transfer.id, transfer.src, transfer.dst) for transfer in transfers]
        return DistributeModel(version, min(held.values()), tuple(hops)), transfers

    def _receivers(self, version: int) -> list[str]:
        """Those that can be served now: a worker beside the server needs no link for that."""
        if not self._held:
            return []
        wanted = START_SHARE * self._loads.rate(self._egress)
        free = self._loads.free(self._egress) >= wanted
        return [
            w
            for w, held in self._held.items()
            if (held < version or w in self._again) and (free or w == self._server)
        ]

    def _transfers(self, receivers: list[str], now: float) -> list[Transfer]:
        bringing: dict[str, Transfer] = {}
        for src, dst in self._tree(receivers, now):
            above = [bringing[src]] if src in bringing else []
            name = next(self._names)
            bringing[dst] = Transfer(name, "model", (), src, dst, self._bytes, above, chunked=True)
        return list(bringing.values())

    def _tree(self, receivers: list[str], now: float) -> list[tuple[str, str]]:
        """Who gets the model from whom, parents first."""
        if len(receivers) < 2:
            return [(self._server, receiver) for receiver in receivers]
        residual = self._loads.residual((self._server, *receivers), [], now)
        edges = plan_tree(self._server, receivers, residual, self._bytes, self._chunk_bytes, now)
        return [(edge.src, edge.dst) for edge in edges]
