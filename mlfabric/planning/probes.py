"""Small transfers that show whether idle links, slow before, have recovered [ours]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlfabric.actions import Probe
from mlfabric.planning.loads import LinkLoads
from mlfabric.planning.rates import RateEstimator
from mlfabric.planning.settings import SchedulerSettings
from mlfabric.topology import Direction, Link

PROBE_CHUNKS = 3
"""The fewest that show a rate: it is measured from the first chunk to the last but one."""

DOUBT_SHARE = 0.25
"""A low estimate is doubted after this share of the time for which it is believed."""

_OPPOSITE: dict[Direction, Direction] = {"egress": "ingress", "ingress": "egress"}


class Probes:
    """Between two workers, as the server's link is what all wait for; a link at a time."""

    def __init__(
        self,
        settings: SchedulerSettings,
        rates: RateEstimator,
        loads: LinkLoads,
        names: Iterator[str],
    ) -> None:
        self._workers = settings.workers
        self._bytes = PROBE_CHUNKS * settings.chunk_bytes
        self._after_s = DOUBT_SHARE * settings.rate_memory_s
        self._rates = rates
        self._loads = loads
        self._names = names
        self._running: dict[str, tuple[Link, Link]] = {}

    def due(self, now: float) -> list[Probe]:
        """Probes to send now: of each doubtful idle link, with an idle one at its full rate."""
        found = []
        for link in self._rates.doubtful(now, self._after_s):
            partner = self._partner(link, now) if self._is_free(link) else None
            if partner is not None:
                ends = {link.direction: link.host, partner.direction: partner.host}
                probe = Probe(next(self._names), ends["egress"], ends["ingress"], self._bytes)
                self._running[probe.transfer] = (link, partner)
                found.append(probe)
        return found

    def ended(self, transfer: str, bytes_per_s: float | None, now: float) -> bool:
        """Learn from a probe; False where that transfer is none."""
        links: Sequence[Link] | None = self._running.pop(transfer, None)
        if links is not None and bytes_per_s is not None:
            expected = min(self._rates.rate(link, now) for link in links)
            self._rates.observed(links, bytes_per_s, expected, now)
        return links is not None

    def lose(self, host: str) -> None:
        """Nothing is tried with this host any more, and nothing of it waited for."""
        self._workers = tuple(worker for worker in self._workers if worker != host)
        self._running = {
            name: links
            for name, links in self._running.items()
            if host not in (link.host for link in links)
        }

    def _partner(self, link: Link, now: float) -> Link | None:
        way = _OPPOSITE.get(link.direction)
        if way is None or link.host not in self._workers:
            return None
        others = (Link(worker, way) for worker in self._workers if worker != link.host)
        full = self._rates.line
        return next(
            (o for o in others if self._is_free(o) and self._rates.rate(o, now) == full[o]), None
        )

    def _is_free(self, link: Link) -> bool:
        probed = any(link in links for links in self._running.values())
        return not probed and self._loads.idle(self._loads.network.link_row[link])
