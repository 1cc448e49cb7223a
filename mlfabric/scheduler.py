"""The scheduler: a state machine that turns events into actions; no I/O and no clock.

Updates gather while a batch is on the wire; the next batch is ordered, bounded in delay, grouped
and queued [paper], queued transfers start as their links become free, groups
commit as they arrive, and models spread along trees [ours].
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mlfabric.actions import (
    Action,
    CancelTransfer,
    CommitGroup,
    DistributeModel,
    DropUpdate,
    StartTransfer,
    WakeAt,
)
from mlfabric.errors import ProtocolError
from mlfabric.events import (
    Event,
    ModelRequested,
    RateMeasured,
    TransferDone,
    TransferEnding,
    TransferProgress,
    Update,
    UpdateReady,
    Woken,
)
from mlfabric.planning.aggregation import AggregatorChoice, choose_aggregators
from mlfabric.planning.batch import Batch, OrderingRule
from mlfabric.planning.commits import OpenGroup, next_commit
from mlfabric.planning.distribution import plan_tree
from mlfabric.planning.loads import START_SHARE, LinkLoads, Transfer
from mlfabric.planning.planner import plan, warm_up
from mlfabric.planning.rates import RateEstimator
from mlfabric.planning.residual import Network, Residual
from mlfabric.topology import Link

PLAN_AHEAD = 1.05
"""The next batch is planned when the server's ingress is reserved for this many mean transfers
more [ours]: the last transfer of a batch has just started."""


@dataclass(frozen=True)
class SchedulerSettings:
    """What the scheduler is told once.

    `delay_bound` in versions (None: unbounded); `aggregators` are the hosts that may sum;
    `model_bytes` is the dense size of the model; `line_bytes_per_s` the nominal rate of each host's
    link; `bandwidth` whether rates are learned from transfers or told by the emulator;
    `rate_memory_s` how long an unconfirmed low estimate is believed; `chunk_bytes` what a hop
    passes on at a time.
    """

    server: str
    workers: tuple[str, ...]
    delay_bound: int | None
    ordering: OrderingRule
    aggregation: Literal["none", "paper"]
    aggregators: tuple[str, ...]
    aggregator_choice: AggregatorChoice
    model_bytes: int
    line_bytes_per_s: Mapping[str, float]
    bandwidth: Literal["measured", "oracle"]
    rate_memory_s: float
    chunk_bytes: int
    seed: int


class Scheduler:
    """One server, its workers, and everything that is waiting or on the wire between them."""

    def __init__(self, settings: SchedulerSettings) -> None:
        self.settings = settings
        self.version = 0
        self._rng = random.Random(settings.seed)
        hosts = (settings.server, *settings.workers)
        network = Network(hosts)
        line = {link: settings.line_bytes_per_s[link.host] for link in network.link_row}
        memory_s = settings.rate_memory_s if settings.bandwidth == "measured" else math.inf
        self._rates = RateEstimator(line, memory_s)
        self._loads = LinkLoads(self._rates.rate, network)
        self._waiting: dict[str, Update] = {}
        self._groups: list[OpenGroup] = []
        self._planned: list[OpenGroup] = []
        self._flying: dict[str, Transfer] = {}
        self._group_of: dict[str, OpenGroup] = {}
        self._requests: dict[str, int] = {}
        self._pull_bytes = float(settings.model_bytes)
        self._held_until: float | None = None
        self._names = (f"t{number}" for number in itertools.count(1))
        warm_up()  # nothing is compiled once events come

    @property
    def reads_rates(self) -> bool:
        """Whether bandwidth comes from the emulator (oracle) and not from measurements."""
        return self.settings.bandwidth == "oracle"

    def handle(self, event: Event, now: float) -> list[Action]:
        """What to do, in this order, now that `event` has happened; `now` in seconds."""
        _HANDLERS[type(event)](self, event, now)
        return [
            *self._commit(now),
            *self._plan(now),
            *self._start_transfers(now),
            *self._distribute(now),
        ]

    # -- events ------------------------------------------------------------------------------

    def _handle_update_ready(self, event: UpdateReady, now: float) -> None:
        if event.update.id in self._waiting:
            raise ProtocolError(f"update {event.update.id} was announced twice")
        self._waiting[event.update.id] = event.update

    def _handle_transfer_progress(self, event: TransferProgress, now: float) -> None:
        transfer = self._flying.get(event.transfer)
        if transfer is not None:
            self._learn(transfer, event.bytes_per_s, now)
            transfer.correct(event.bytes, event.bytes_per_s, now)

    def _handle_transfer_ending(self, event: TransferEnding, now: float) -> None:
        self._loads.stop(event.transfer)

    def _handle_transfer_done(self, event: TransferDone, now: float) -> None:
        self._loads.stop(event.transfer)
        transfer = self._flying.pop(event.transfer, None)
        if transfer is None:  # it was cancelled while its last bytes were on the wire
            return
        if event.bytes_per_s is not None:
            self._learn(transfer, event.bytes_per_s, now)
        if transfer.kind == "model":
            self._pull_bytes = float(max(event.bytes, 1))
            return
        self._group_of.pop(transfer.id).has_arrived(transfer)

    def _handle_model_requested(self, event: ModelRequested, now: float) -> None:
        self._requests[event.worker] = event.held_version

    def _handle_rate_measured(self, event: RateMeasured, now: float) -> None:
        for way in ("egress", "ingress"):
            self._rates.told(Link(event.host, way), event.bytes_per_s, now)

    def _handle_woken(self, event: Woken, now: float) -> None:
        """Nothing but the time has changed."""

    def _learn(self, transfer: Transfer, seen: float, now: float) -> None:
        expected = transfer.expected_bytes_per_s
        if self.settings.bandwidth == "oracle":
            return
        transfer.seen_bytes_per_s = seen
        if transfer.parent is not None:
            if transfer.parent.seen_bytes_per_s is None:
                return
            expected = min(expected, transfer.parent.seen_bytes_per_s)
        self._rates.observed(transfer.src, transfer.dst, seen, expected, now)

    # -- commits -----------------------------------------------------------------------------

    def _commit(self, now: float) -> list[Action]:
        actions: list[Action] = []
        while True:
            group, late = next_commit(self._groups, self.version, self.settings.delay_bound)
            if group is None:
                break
            if late and self._worth_waiting_for(late, now):
                assert self._held_until is not None
                return [*actions, WakeAt(self._held_until)]
            after = self.version + len(group.members)
            for other in late:
                actions += self._cut(other, after)
            actions.append(self._apply(group))
            self._held_until = None
        self._held_until = None
        return actions

    def _worth_waiting_for(self, late: list[OpenGroup], now: float) -> bool:
        """A group is held, for one mean transfer at most, for others that arrive by then."""
        if self._held_until is None:
            self._held_until = now + self._mean_transfer_s([g.crossing.bytes for g in late], now)
        return now < self._held_until and all(
            not group.arrived
            and group.crossing.started_s is not None
            and now + group.crossing.seconds_left(now) <= self._held_until
            for group in late
        )

    def _apply(self, group: OpenGroup) -> CommitGroup:
        self._groups.remove(group)
        before, self.version = self.version, self.version + len(group.members)
        return CommitGroup(
            transfer=group.crossing.id,
            updates=tuple(u.id for u in group.members),
            workers=tuple(u.worker for u in group.members),
            delays=tuple(before - u.version for u in group.members),
            version=before,
        )

    def _cut(self, group: OpenGroup, version: int) -> list[Action]:
        """Drop the members that would exceed the bound at `version`; all of them once summed."""
        bound = self.settings.delay_bound
        assert bound is not None
        summed = group.via is not None and group.crossing.started_s is not None
        late = [u for u in group.members if summed or version - u.version > bound]
        group.members = [u for u in group.members if u not in late]
        actions: list[Action] = []
        for update in late:
            brought = group.collected.pop(update.id, None)
            transfer = group.transfers.pop(update.id, brought)
            if transfer is not None:
                actions += self._cancel(transfer)
            actions.append(DropUpdate(update.id, update.worker, version - update.version))
        if not group.members:
            actions += self._cancel(group.crossing)
            self._groups.remove(group)
        group.crossing.updates = tuple(u.id for u in group.members)
        return actions

    def _cancel(self, transfer: Transfer) -> list[Action]:
        self._loads.stop(transfer.id)
        self._group_of.pop(transfer.id, None)
        self._flying.pop(transfer.id, None)
        if transfer.started_s is None:
            return []
        return [CancelTransfer(transfer.id, transfer.src, transfer.dst)]

    # -- planning ----------------------------------------------------------------------------

    def _plan(self, now: float) -> list[Action]:
        """Order and group all updates of which nothing has been sent, once the server is soon free.

        A plan is tentative: the next one starts afresh from what has not begun.
        """
        dropped = self._drop_hopeless()
        updates = list(self._waiting.values())
        if not updates:
            return dropped
        queued = [t for group in self._groups for t in (*group.startable(), *group.later())]
        residual = self._loads.residual(queued, now)
        ingress = Link(self.settings.server, "ingress")
        share = START_SHARE * self._rates.rate(ingress, now)
        busy_until_s = residual.first_time_at(ingress, share, now)
        mean_s = self._mean_transfer_s([u.bytes for u in updates], now)
        if busy_until_s - now > PLAN_AHEAD * mean_s:
            return dropped
        planned = plan(self._batch(updates, residual, now, busy_until_s))
        self._planned = [OpenGroup.of(group, self._names) for group in planned.groups]
        return dropped + [self._drop(late.update, late.delay) for late in planned.dropped]

    def _drop_hopeless(self) -> list[Action]:
        """Drop what would be too late even if it were applied at once, planned or not."""
        bound = self.settings.delay_bound
        if bound is None:
            return []
        late = [u for u in self._waiting.values() if self.version - u.version > bound]
        hopeless = [self._drop(update, self.version - update.version) for update in late]
        self._planned = [g for g in self._planned if not any(u in late for u in g.members)]
        return hopeless

    def _drop(self, update: Update, delay: int) -> Action:
        del self._waiting[update.id]
        return DropUpdate(update.id, update.worker, delay)

    def _batch(
        self, updates: Sequence[Update], residual: Residual, now: float, busy_until_s: float
    ) -> Batch:
        settings = self.settings
        busy = {group.via for group in self._groups if not group.arrived}
        idle = [host for host in settings.aggregators if host not in busy]
        return Batch(
            tuple(updates),
            residual,
            settings.server,
            now=now,
            version=self.version + sum(len(group.members) for group in self._groups),
            delay_bound=settings.delay_bound,
            ordering=settings.ordering,
            aggregation=settings.aggregation,
            aggregators=choose_aggregators(idle, settings.aggregator_choice, self._rng),
            best_fit=settings.aggregator_choice == "best_fit",
            reuse=False,  # the plan after this one may: nothing is promised yet
            model_bytes=settings.model_bytes,
            busy_until_s=busy_until_s,
        )

    def _mean_transfer_s(self, sizes: Sequence[float], now: float) -> float:
        rate = self._rates.rate(Link(self.settings.server, "ingress"), now)
        return sum(sizes) / len(sizes) / rate

    # -- starting ----------------------------------------------------------------------------

    def _start_transfers(self, now: float) -> list[Action]:
        """Start what its links have room for: groups on their way first, then planned ones."""
        actions: list[Action] = []
        for group in (*self._groups, *self._planned):
            for transfer in group.startable():
                if self._loads.may_start(transfer, now):
                    self._begin(group, transfer, now)
                    actions.append(_start_of(transfer))
        return actions

    def _begin(self, group: OpenGroup, transfer: Transfer, now: float) -> None:
        if group in self._planned:
            self._planned.remove(group)
            self._groups.append(group)
            for update in group.members:
                del self._waiting[update.id]
        self._group_of[transfer.id] = group
        self._start(transfer, now)

    def _start(self, transfer: Transfer, now: float) -> None:
        self._loads.start(transfer, now)
        self._flying[transfer.id] = transfer

    def _distribute(self, now: float) -> list[Action]:
        receivers = [w for w, held in self._requests.items() if held < self.version]
        free = self._loads.free(now)
        out = Link(self.settings.server, "egress")
        if not receivers or free[out] < START_SHARE * self._rates.rate(out, now):
            return []
        since = min(self._requests.pop(worker) for worker in receivers)
        edges = plan_tree(
            self.settings.server,
            receivers,
            self._loads.residual([], now),
            self._pull_bytes,
            self.settings.chunk_bytes,
            now,
        )
        bringing: dict[str, Transfer] = {}
        for edge in edges:
            transfer = Transfer(
                next(self._names),
                "model",
                (),
                edge.src,
                edge.dst,
                self._pull_bytes,
                parent=bringing.get(edge.src),
            )
            self._start(transfer, now)
            bringing[edge.dst] = transfer
        hops = tuple((t.id, t.src, t.dst) for t in bringing.values())
        return [DistributeModel(self.version, since, hops)]


def _start_of(transfer: Transfer) -> StartTransfer:
    kind: Literal["update", "sum"] = "sum" if len(transfer.updates) > 1 else "update"
    return StartTransfer(transfer.id, kind, transfer.updates, transfer.src, transfer.dst)


_HANDLERS: dict[type, Callable[[Scheduler, Any, float], None]] = {
    UpdateReady: Scheduler._handle_update_ready,
    TransferProgress: Scheduler._handle_transfer_progress,
    TransferEnding: Scheduler._handle_transfer_ending,
    TransferDone: Scheduler._handle_transfer_done,
    ModelRequested: Scheduler._handle_model_requested,
    RateMeasured: Scheduler._handle_rate_measured,
    Woken: Scheduler._handle_woken,
}
