"""The scheduler: a state machine that turns events into actions; no I/O and no clock.

Updates gather while a batch is on the wire; the next batch is ordered, bounded in delay, grouped
and queued [paper], queued transfers start as their links become free, groups
commit as they arrive, and models spread along trees [ours].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from mlfabric.actions import (
    Action,
    CommitGroup,
    CopyGroup,
    DropUpdate,
    PromoteReplica,
    StartTransfer,
    WakeAt,
)
from mlfabric.counting import Count, Names
from mlfabric.errors import ModelLost
from mlfabric.events import (
    Event,
    HostLost,
    ModelRequested,
    RateMeasured,
    ReplicaCommitted,
    ReplicaPromoted,
    TransferDone,
    TransferEnding,
    TransferProgress,
    Update,
    UpdateReady,
    Woken,
    WorkerLeft,
)
from mlfabric.planning.batch import Batch
from mlfabric.planning.batching import Batching
from mlfabric.planning.commits import (
    OpenGroup,
    all_come_by,
    leave_time,
    next_commit,
    planned_scale,
)
from mlfabric.planning.copying import Copying
from mlfabric.planning.dispatch import Dispatch
from mlfabric.planning.following import Follower
from mlfabric.planning.loads import LinkLoads, Transfer
from mlfabric.planning.opportunity import Opportunity
from mlfabric.planning.planner import plan, plan_sum, warm_up
from mlfabric.planning.probes import Probes
from mlfabric.planning.pulls import Pulls
from mlfabric.planning.rates import RateEstimator
from mlfabric.planning.residual import Network
from mlfabric.planning.settings import SchedulerSettings
from mlfabric.planning.waiting import WaitingUpdates
from mlfabric.topology import Link

__all__ = ["Scheduler", "SchedulerSettings"]

ALONE_S = 1.0
"""An update that is to be summed waits so long for another one [ours]."""


class Scheduler:
    """One server, its workers, and everything that is waiting or on the wire between them."""

    def __init__(self, settings: SchedulerSettings) -> None:
        self.settings = settings
        self.version = 0
        replication = settings.replication
        apart = () if replication is None else (replication.host,)
        hosts = tuple(dict.fromkeys((settings.server, *settings.workers, *apart)))
        network = Network(hosts, settings.topology)
        line = {link: settings.line_bytes_per_s[link.host] for link in network.link_row}
        memory_s = settings.rate_memory_s if settings.bandwidth == "measured" else math.inf
        self._rates = RateEstimator(line, memory_s)
        self._loads = LinkLoads(network, line)
        self._dispatch = Dispatch(self._loads)
        self._batching = Batching(settings, self._loads)
        self._server = settings.server
        self._workers = set(settings.workers)
        self._orders: list[Action] = []
        self._replica = None if replication is None else replication.host
        self._promoting = False
        self._sums_next = False
        self._alone_since: float | None = None
        self._ingress = network.link_row[Link(settings.server, "ingress")]
        self._row = network.link_row
        self._synchronous = settings.synchronous
        self._waiting = WaitingUpdates()
        self._beside: list[Update] = []
        self._aged = False
        self._groups: dict[OpenGroup, None] = {}
        workers, most = len(settings.workers), settings.batch_updates
        self._time = Opportunity(self._loads, self._ingress, self._groups, workers, most)
        self._planned: dict[OpenGroup, None] = {}
        self._arrived = 0
        self._held_until: float | None = None
        self._names = Names("t")
        self._pulls = Pulls(settings, self._loads, self._names)
        self._probes = Probes(settings, self._rates, self._loads, self._names)
        self._numbers = Count()
        self._copying: Copying | None = None
        if replication is not None and replication.kind == "bounded":
            follower = Follower(replication, self._names, settings.momentum, len(settings.workers))
            self._copying = Copying(follower, self._dispatch, self._numbers)
        warm_up()  # nothing is compiled once events come

    @property
    def reads_rates(self) -> bool:
        """Whether bandwidth comes from the emulator (oracle) and not from measurements."""
        return self.settings.bandwidth == "oracle"

    def memory(self) -> Any:
        """How far the replica may be, and how far commits move the model; None without one."""
        return None if self._copying is None else self._copying.follower.memory()

    def begin_at(self, version: int, memory: Any) -> None:
        """Go on with a model of this version, of which nothing is on its way."""
        self.version = version
        if self._copying is not None and memory is not None:
            self._copying.follower.remember(memory)

    def sum_next(self) -> None:
        """Sum the next two updates at a host, worthwhile or not."""
        self._sums_next = True

    def handle(self, event: Event, now: float) -> list[Action]:
        """What to do, in this order, now that `event` has happened; `now` in seconds."""
        _HANDLERS[type(event)](self, event, now)
        self._believe(now)
        actions, self._orders = self._orders, []
        if self._arrived and not self._catching_up:
            actions += self._commit_iteration() if self._synchronous else self._commit(now)
        if self._copying is not None:
            actions += self._follow(self._copying)
        if self._beside:
            actions += self._take_beside()
        if self._promoting:  # whoever is to serve could not take anything yet
            return actions
        if self._waiting.count:
            actions += self._plan(now)
        actions += self._start_transfers(now)
        if not self._catching_up:
            actions += self._distribute(now)
        if self.settings.probes:
            actions += self._probes.due(now)
        return actions

    # -- events ------------------------------------------------------------------------------

    def _handle_update_ready(self, event: UpdateReady, now: float) -> None:
        if event.update.worker == self._server:
            self._beside.append(event.update)
            return
        self._waiting.add(event.update)
        self._aged = True
        self._time.news += 1

    def _handle_transfer_progress(self, event: TransferProgress, now: float) -> None:
        transfer = self._dispatch.running(event.transfer)
        if transfer is not None:
            self._learn(transfer, event.bytes_per_s, now)
            self._loads.correct(transfer, event.bytes, event.bytes_per_s, now)

    def _handle_transfer_ending(self, event: TransferEnding, now: float) -> None:
        self._loads.stop(event.transfer)

    def _handle_transfer_done(self, event: TransferDone, now: float) -> None:
        self._loads.stop(event.transfer)
        if self._probes.ended(event.transfer, event.bytes_per_s, now):
            return
        transfer = self._dispatch.ended(event.transfer)
        if transfer is None:
            return
        if event.bytes_per_s is not None:
            self._learn(transfer, event.bytes_per_s, now)
        if transfer.kind in ("model", "copy"):
            transfer.arrived = True
            if transfer.kind == "model":
                self._pulls.brought(transfer, event.bytes)
            return
        group: OpenGroup = transfer.owner
        self._enqueue(group.has_arrived(transfer))
        if transfer is group.crossing:
            self._arrived += 1
            if self._copying is not None:
                self._copying.arrived(group)

    def _handle_model_requested(self, event: ModelRequested, now: float) -> None:
        self._pulls.ask(event.worker, event.held_version)

    def _handle_replica_committed(self, event: ReplicaCommitted, now: float) -> None:
        if self._copying is not None:
            self._copying.follower.caught_up(event.version)

    def _handle_host_lost(self, event: HostLost, now: float) -> None:
        host = event.host
        for group in list(self._planned):  # what is left of them is planned afresh
            self._forget(group)
        for transfer in self._pulls.lose(host):
            self._orders += self._dispatch.cancel(transfer)
        if host == self._server:
            self._lose_server()
        elif host == self._replica:
            self._lose_replica()
        else:
            self._lose_worker(host)

    def _handle_replica_promoted(self, event: ReplicaPromoted, now: float) -> None:
        self._promoting = False
        if self._copying is None:  # what the server had not forwarded is lost with it
            self.version = event.version

    def _handle_rate_measured(self, event: RateMeasured, now: float) -> None:
        for way in ("egress", "ingress"):
            self._rates.told(Link(event.host, way), event.bytes_per_s, now)

    def _handle_woken(self, event: Woken, now: float) -> None:
        """Nothing but the time has changed."""

    def _learn(self, transfer: Transfer, seen: float, now: float) -> None:
        """Compare the rate with what was expected, or with what it passes on came at."""
        if self.settings.bandwidth == "oracle":
            return
        transfer.seen_bytes_per_s = seen
        fed = transfer.slowest_source()
        if fed is not None:
            expected = min(transfer.expected_bytes_per_s, fed)
            self._rates.observed(transfer.links, seen, expected, now)

    def _believe(self, now: float) -> None:
        """Pass on what has been learned of links."""
        for link in self._rates.changes(now):
            row = self._row[link]
            self._loads.set_rate(row, self._rates.rate(link, now))
            self._dispatch.rate_changed(row)
            self._time.news += 1

    # -- commits -----------------------------------------------------------------------------

    def _commit(self, now: float) -> list[Action]:
        actions: list[Action] = []
        while self._arrived:
            group, late = next_commit(list(self._groups), self.version, self.settings.delay_bound)
            assert group is not None
            if late and self._worth_waiting_for(late, now):
                assert self._held_until is not None
                return [*actions, WakeAt(self._held_until)]
            if not self._replica_allows([group]):
                return actions
            after = self.version + len(group.members)
            for other in late:
                actions += self._cut(other, after)
            actions.append(self._apply([group]))
            self._held_until = None
        self._held_until = None
        return actions

    def _worth_waiting_for(self, late: list[OpenGroup], now: float) -> bool:
        """A group is held, for one mean transfer at most, for others that arrive by then."""
        if self._held_until is None:
            mean_bytes = sum(group.crossing.bytes for group in late) / len(late)
            self._held_until = now + mean_bytes / self._loads.rate(self._ingress)
        return now < self._held_until and all_come_by(self._held_until, late, now)

    def _commit_iteration(self) -> list[Action]:
        """Apply all groups at once when they hold an update of every worker."""
        arrived = [group for group in self._groups if group.arrived]
        complete = self._workers <= {u.worker for group in arrived for u in group.members}
        return [self._apply(arrived)] if complete and self._replica_allows(arrived) else []

    def _replica_allows(self, groups: Sequence[OpenGroup]) -> bool:
        return self._copying is None or self._copying.allows(groups)

    def _follow(self, copying: Copying) -> list[Action]:
        """What the replica can do by now; once it serves and has all, it follows nobody."""
        actions = copying.orders(self.version, self._server)
        if copying.follower.promoted and not self._catching_up:
            self._copying = None
        return actions

    # -- losses ------------------------------------------------------------------------------

    @property
    def _catching_up(self) -> bool:
        """Whether the replica is to serve, and has not said so or not all that was committed."""
        copying = self._copying
        return self._promoting or (copying is not None and copying.follower.catching_up)

    def _lose_replica(self) -> None:
        """The server goes on alone."""
        if self._copying is not None:
            self._orders += self._copying.stop()
        self._copying = self._replica = None

    def _lose_worker(self, host: str) -> None:
        """What it has not sent is gone; so is every group that still needs it."""
        self._workers.discard(host)
        self._probes.lose(host)
        self._orders += [self._dropped(update) for update in self._waiting.take_of(host)]
        for group in [group for group in self._groups if group.needs(host)]:
            self._give_up(group)
        if self._copying is not None:
            actions, groups = self._copying.lose(host)
            self._orders += actions
            for group in groups:
                if group in self._groups:  # the replica could not follow
                    self._give_up(group)

    def _lose_server(self) -> None:
        """The replica serves; what the server had not committed is dropped."""
        if self._replica is None:
            raise ModelLost(f"{self._server} is lost, and no replica has its model")
        for group in list(self._groups):
            self._give_up(group)
        self._server, self._replica = self._replica, None
        self._ingress = self._row[Link(self._server, "ingress")]
        self._time.moved(self._ingress)
        self._pulls.moved(self._server, self._workers)
        if self._copying is not None:
            self._copying.promote()
        self._promoting = True
        self._orders.append(PromoteReplica(self._server))

    def _give_up(self, group: OpenGroup) -> None:
        """Drop a group as a whole, wherever its parts are; its workers begin anew."""
        members = group.members.copy()
        for transfer in group.leave(members):
            self._orders += self._dispatch.cancel(transfer)
        if self._copying is not None:
            self._orders += self._copying.dropped(group)
        self._orders += [self._dropped(update) for update in members]
        self._pulls.again(update.worker for update in members)
        del self._groups[group]
        self._arrived -= group.arrived
        self._time.regroupings += 1

    def _dropped(self, update: Update) -> DropUpdate:
        return DropUpdate(update.id, update.worker, self.version - update.version)

    def _apply(self, groups: Sequence[OpenGroup]) -> CommitGroup:
        """The server applies the sum of these groups."""
        for group in groups:
            del self._groups[group]
        self._arrived -= len(groups)
        members = [update for group in groups for update in group.members]
        before, self.version = self.version, self.version + len(members)
        if self._copying is not None:
            self._copying.committed(groups, before)
        self._aged = True
        return CommitGroup(
            transfers=tuple(group.crossing.id for group in groups),
            updates=tuple(u.id for u in members),
            workers=tuple(u.worker for u in members),
            delays=tuple(before - u.version for u in members),
            version=before,
            scales=(1.0,) * len(groups),
            divergence=None if self._copying is None else self._copying.follower.divergence,
        )

    def _cut(self, group: OpenGroup, version: int) -> list[Action]:
        """Drop members that would exceed the bound at `version`, all once they are summed."""
        assert self.settings.delay_bound is not None
        late = group.too_late(version, self.settings.delay_bound)
        actions = [action for gone in group.leave(late) for action in self._dispatch.cancel(gone)]
        actions += [DropUpdate(u.id, u.worker, version - u.version) for u in late]
        self._time.regroupings += 1
        if not group.members:
            del self._groups[group]
            self._arrived -= group.arrived
            if self._copying is not None:
                actions += self._copying.dropped(group)
        for transfer in group.startable():
            if transfer.key is None:
                self._enqueue(transfer)
        return actions

    # -- planning ----------------------------------------------------------------------------

    def _plan(self, now: float) -> list[Action]:
        """Order and group updates of which nothing has been sent, once the server is soon free.

        A plan is tentative: the next one starts afresh from what has not begun.
        """
        dropped = self._drop_hopeless() if self._aged else []
        if not self._time.has_come(self._waiting, not self._planned, now):
            return dropped
        if self._sums_next and self._waiting.count < 2:
            if self._alone_since is None:
                self._alone_since = now
                return [*dropped, WakeAt(now + ALONE_S)]
            if now < self._alone_since + ALONE_S:
                return dropped
        self._alone_since = None
        for group in list(self._planned):
            self._forget(group)
        planned = (plan_sum if self._sums_next else plan)(self._batch(now))
        for number, found in enumerate(planned.groups):
            self._queue_up(OpenGroup.of(found, number, self._names))
        self._time.news = 0
        return dropped + [self._drop(late.update, late.delay) for late in planned.dropped]

    def _take_beside(self) -> list[Action]:
        """Updates of a worker beside the server need no plan: they cross no link.

        They wait while groups on their way would be too late after them.
        """
        actions: list[Action] = []
        server, bound = self._server, self.settings.delay_bound
        waiting, self._beside = self._beside, []
        for update in waiting:
            delay = self.version - update.version
            if bound is not None and delay > bound:
                actions.append(DropUpdate(update.id, update.worker, delay))
            elif not leave_time(self._groups, self.version, bound):
                self._beside.append(update)
            else:
                name, size = next(self._names), float(update.bytes)
                transfer = Transfer(name, "update", (update.id,), server, server, size)
                group = OpenGroup([update], [transfer], (0, -next(self._numbers)))  # the next one
                self._groups[group] = None
                self._enqueue(transfer)
        return actions

    def _drop_hopeless(self) -> list[Action]:
        """Drop what would be too late even if it were applied at once, planned or not."""
        self._aged = False
        if self.settings.delay_bound is None:
            return []
        late = self._waiting.take_older_than(self.version - self.settings.delay_bound)
        if late:
            names = {update.id for update in late}
            for group in list(self._planned):
                if any(update.id in names for update in group.members):
                    self._forget(group)
                    self._time.news += len(group.members)
        return [self._dropped(update) for update in late]

    def _drop(self, update: Update, delay: int) -> Action:
        self._waiting.remove(update)
        return DropUpdate(update.id, update.worker, delay)

    def _forget(self, group: OpenGroup) -> None:
        """A planned group is not to be sent."""
        del self._planned[group]
        for transfer in group.transfers:
            self._dispatch.withdraw(transfer)

    def _batch(self, now: float) -> Batch:
        return self._batching.batch(
            self._waiting.longest(self.settings.batch_updates),
            self._groups,
            self._server,
            self._workers,
            version=self.version,
            busy_until_s=self._time.server_free_s(now),
            now=now,
        )

    # -- starting ----------------------------------------------------------------------------

    def _queue_up(self, group: OpenGroup) -> None:
        self._planned[group] = None
        for transfer in group.startable():
            self._enqueue(transfer)

    def _enqueue(self, transfer: Transfer | None) -> None:
        if transfer is not None:
            self._dispatch.add(transfer, (*transfer.owner.rank, transfer.place))

    def _start_transfers(self, now: float) -> list[Action]:
        """Start what its links have room for: groups on their way first, then planned ones."""
        actions: list[Action] = []
        while (transfer := self._dispatch.next()) is not None:
            actions.append(self._started(transfer, now))
        return actions

    def _started(self, transfer: Transfer, now: float) -> StartTransfer | CopyGroup:
        group: OpenGroup = transfer.owner
        self._dispatch.start(transfer, now)
        if transfer.kind == "copy":
            assert self._copying is not None
            return self._copying.follower.order_to_send(transfer)
        if not group.on_its_way:
            self._set_off(group)
        self._enqueue(group.has_begun(transfer))
        inputs = tuple(t.id for t in transfer.inputs) if transfer.chunked else ()
        kind, src, dst = transfer.kind, transfer.src, transfer.dst
        assert kind in ("update", "sum")  # models are not queued
        scale = self._scale(group, src)
        return StartTransfer(transfer.id, kind, transfer.updates, src, dst, inputs, scale)

    def _scale(self, group: OpenGroup, worker: str) -> float:
        """By what the member that a worker has computed is multiplied as it is sent."""
        rule = self.settings.step_rule
        return planned_scale(rule, self._groups, group, worker, self.version) if rule else 1.0

    def _set_off(self, group: OpenGroup) -> None:
        """A planned group is on its way: it will not be planned again."""
        del self._planned[group]
        self._groups[group] = None
        self._sums_next = self._sums_next and len(group.members) == 1
        self._time.regroupings += 1
        group.rank = (0, next(self._numbers))
        for update in group.members:
            self._waiting.remove(update)
        for transfer in group.startable():
            self._dispatch.withdraw(transfer)
            self._enqueue(transfer)

    def _distribute(self, now: float) -> list[Action]:
        answer = self._pulls.answer(self.version, now)
        if answer is None:
            return []
        action, transfers = answer
        for transfer in transfers:
            self._dispatch.start(transfer, now)
        return [action]


_HANDLERS: dict[type, Callable[[Scheduler, Any, float], None]] = {
    UpdateReady: Scheduler._handle_update_ready,
    TransferProgress: Scheduler._handle_transfer_progress,
    TransferEnding: Scheduler._handle_transfer_ending,
    TransferDone: Scheduler._handle_transfer_done,
    ModelRequested: Scheduler._handle_model_requested,
    ReplicaCommitted: Scheduler._handle_replica_committed,
    ReplicaPromoted: Scheduler._handle_replica_promoted,
    HostLost: Scheduler._handle_host_lost,
    RateMeasured: Scheduler._handle_rate_measured,
    Woken: Scheduler._handle_woken,
    WorkerLeft: Scheduler._handle_woken,
}
