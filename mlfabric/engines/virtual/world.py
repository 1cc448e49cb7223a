"""All virtual hosts, their clock and their network."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from mlfabric.emulation.spec import RateEvent
from mlfabric.engines.roles.casting import coordinator_hosts, plans_transfers
from mlfabric.engines.roles.node import story
from mlfabric.engines.snapshots import Snapshots
from mlfabric.engines.tallies import Tally, mean_tally
from mlfabric.engines.virtual.agenda import Agenda
from mlfabric.engines.virtual.losses import Losses
from mlfabric.engines.virtual.node import VirtualNode
from mlfabric.engines.virtual.plan import VirtualPlan
from mlfabric.engines.virtual.streams import Streams
from mlfabric.errors import NothingMoves
from mlfabric.payload import distance
from mlfabric.topology import Link

PROGRESS_EVENTS = 5_000
"""Progress is told each time so many events have happened."""

OnSnapshot = Callable[[NDArray[Any], int, float], bool]
OnProgress = Callable[[float, Mapping[str, int]], None]


class World:
    """Drives hosts from event to event, until something says that the run is over."""

    def __init__(self, plan: VirtualPlan, on_snapshot: OnSnapshot) -> None:
        self.plan = plan
        self.agenda = Agenda()
        self.over = False
        self.versions = [0] * len(plan.servers)
        self._commits = 0
        self.rows: list[dict[str, Any]] = []
        self.rate_watchers: list[Callable[[str, float], None]] = []
        self.coordinators = coordinator_hosts(plan)
        shards = len(plan.servers)
        self.snapshots = Snapshots(plan.snapshot_interval_s, self._take, shards=shards)
        self.on_snapshot = on_snapshot
        self.replica: NDArray[Any] | None = None
        self.nodes: dict[str, VirtualNode] = {}
        for host in plan.hosts:
            self.nodes[host] = VirtualNode(host, self)
        planned = plans_transfers(plan)
        reserved = planned and plan.reserved_rates
        self.losses: Losses | None = None
        self.streams = Streams(plan, self.agenda, self.nodes, in_order=reserved, watched=planned)
        if plan.faults:
            after_s, scheduler = plan.lost_after_s, plan.scheduler
            self.losses = Losses(self.agenda, self.nodes, self.streams, after_s, scheduler)
            for fault in plan.faults:
                self.losses.schedule(fault)

    @property
    def version(self) -> int:
        """Updates applied, in the mean over the servers."""
        return self._commits // len(self.versions)

    def changed(self, model: NDArray[Any], version: int, *, last: bool, shard: int) -> None:
        """A shard of the model, wherever it is kept, has this version: so many were applied."""
        self._commits += version - self.versions[shard]
        self.versions[shard] = version
        self.snapshots.offer(model, version, self.agenda.now, last=last, shard=shard)

    def tallies(self) -> dict[int, Tally]:
        """What has been counted of each shard."""
        return {shard: t for node in self.nodes.values() for shard, t in node.tallies.items()}

    def _take(self, model: NDArray[Any], version: int, elapsed_s: float, tick: int | None) -> None:
        self.over = self.on_snapshot(model, version, elapsed_s) or self.over
        if self.replica is not None and self.replica is not model and not self._replica_is_gone:
            apart = distance(model, self.replica)
            told = {"elapsed_s": elapsed_s, "version": version, "distance": apart}
            self.rows.append({"row": "distance", **told})

    @property
    def _replica_is_gone(self) -> bool:
        replication, losses = self.plan.context.replication, self.losses
        return bool(losses and replication and replication.host in losses.dead)

    def look(self) -> None:
        """Take a snapshot if one is due, and look again when the next one is."""
        self.snapshots.look(self.agenda.now)
        self.agenda.watch(self.snapshots.due_s, self.look)

    def schedule_stragglers(self) -> None:
        """Put the trace on the agenda; changes of one moment are one change."""
        for host in self.plan.hosts:
            self._tell_rate(host, 1.0)
        ordered = sorted(self.plan.rate_events, key=lambda event: event.time_s)
        for time_s, events in itertools.groupby(ordered, key=lambda event: event.time_s):
            if time_s <= self.plan.max_seconds:
                self.agenda.watch(time_s, self._change_rates, tuple(events))

    def _change_rates(self, events: tuple[RateEvent, ...]) -> None:
        full = self.plan.link_bytes_per_s
        links = [(Link(e.host, way), e.factor) for e in events for way in ("egress", "ingress")]
        self.streams.set_rates([(link, full[link] * factor) for link, factor in links])
        for event in events:
            self._tell_rate(event.host, event.factor)

    def _tell_rate(self, host: str, factor: float) -> None:
        for tell in self.rate_watchers:
            tell(host, self.plan.link_bytes_per_s[Link(host, "egress")] * factor)

    def run(self, on_progress: OnProgress, between_events: Callable[[], None] | None) -> None:
        """Go on until the time, or the updates, are used up, or a snapshot ends the run.

        `between_events` is called before each event. Raises NothingMoves, which tells who waits for
        what, when nothing is left to happen.
        """
        agenda, streams, fabric = self.agenda, self.streams, self.streams.fabric
        most_s, enough = self.plan.max_seconds, self.plan.max_updates or math.inf
        for number in itertools.count():
            if number % PROGRESS_EVENTS == 0:
                shards = len(self.plan.servers)
                on_progress(agenda.now, mean_tally(self.tallies().values(), shards))
            if self.over or self.version >= enough:
                break
            if between_events is not None:
                between_events()
            flows_s, calls_s = fabric.next_s(), agenda.next_s()
            if flows_s == math.inf and not agenda.pending and not streams.stalled:
                raise NothingMoves(f"nothing is left to happen: {self._story()}")
            if flows_s >= most_s and calls_s >= most_s:
                agenda.now = most_s
                break
            if flows_s <= calls_s:
                agenda.now = max(agenda.now, flows_s)
                streams.advance()
            else:
                agenda.step()
        self.over = True

    def _story(self) -> str:
        return "; ".join(
            f"{host} waits for {story(node.waits)}" for host, node in self.nodes.items()
        )
