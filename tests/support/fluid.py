"""A small fluid network with workers, which drives a coordinator and checks its invariants.

Running transfers share links max-min fairly; what is passed on never overtakes what comes in.
Written independently of the library's planning code, so that it can disagree with it.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from mlfabric.actions import (
    CancelTransfer,
    CommitAtReplica,
    CommitGroup,
    CopyGroup,
    DistributeModel,
    DropUpdate,
    StartTransfer,
    WakeAt,
)
from mlfabric.events import (
    ModelRequested,
    ReplicaCommitted,
    TransferDone,
    TransferProgress,
    Update,
    UpdateReady,
    Woken,
)


@dataclass
class Flow:
    """Bytes on their way."""

    id: str
    src: str
    dst: str
    left: float
    size: float
    started: float
    kind: str
    updates: tuple[str, ...] = ()
    behind: tuple[Flow, ...] = ()
    rate: float = 0.0


@dataclass
class Fluid:
    """Workers that compute for `compute_s`, push `n_bytes`, wait, pull and compute again."""

    coordinator: object
    rates: dict[str, float]
    workers: tuple[str, ...]
    compute_s: dict[str, float]
    n_bytes: int
    size_spread: float = 0.0
    server: str = "server"
    replica: str | None = None
    norms: Callable[[str], float] = lambda name: 0.0
    sends_at_once: bool = False
    report_after_s: float = 0.05
    now: float = 0.0
    version: int = 0
    flows: dict[str, Flow] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    log: list[tuple[float, object]] = field(default_factory=list)
    delays: list[int] = field(default_factory=list)
    fate: Counter[str] = field(default_factory=Counter)
    served: Counter[str] = field(default_factory=Counter)
    lags: list[tuple[float, float | None, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._order = itertools.count()
        self._rng = random.Random(1)
        self._sizes: dict[str, int] = {}
        self._timers: list[tuple[float, int, object]] = []
        self._iteration: Counter[str] = Counter()
        self._where: dict[str, str] = {}
        self._pulled: dict[str, int] = {}
        self._at_server: dict[str, tuple[str, ...]] = {}
        self._sent: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._at_replica: dict[str, tuple[str, ...]] = {}
        self.committed: list[str] = []
        self.followed: list[str] = []
        self.held = dict.fromkeys(self.workers, 0)
        for worker in self.workers:
            self._after(self.compute_s[worker], worker)

    def run(self, until: float) -> None:
        """Advance the clock event by event."""
        while self.now < until:
            self._share()
            ends = [(self.now + f.left / f.rate, f) for f in self.flows.values() if f.rate > 0]
            end = min((e for e, _ in ends), default=float("inf"))
            timer = self._timers[0][0] if self._timers else float("inf")
            step = min(end, timer, until)
            assert step < float("inf"), "nothing is on its way and nobody computes"
            for flow in self.flows.values():
                flow.left = max(flow.left - flow.rate * (step - self.now), 0.0)
            self.now = step
            if timer <= min(end, until):
                self._ring()
            elif end <= until:
                self._finish(min(ends, key=lambda pair: pair[0])[1])

    def _after(self, delay: float, what: object) -> None:
        heapq.heappush(self._timers, (self.now + delay, next(self._order), what))

    def _ring(self) -> None:
        if self._timers[0][0] > self.now:
            return
        _, _, what = heapq.heappop(self._timers)
        if what == "wake":
            self._tell(Woken())
            return
        if isinstance(what, _Look):
            self._look(str(what))
            return
        if isinstance(what, ReplicaCommitted):
            self._tell(what)
            return
        if isinstance(what, _Request):
            self._tell(ModelRequested(str(what), self.held[str(what)]))
            return
        worker = str(what)
        name = f"{worker}:{self._iteration[worker]}"
        self._iteration[worker] += 1
        self._where[name], self._pulled[name] = worker, self.held[worker]
        self.fate[name] = 0
        self._sizes[name] = round(self.n_bytes * self._rng.uniform(1 - self.size_spread, 1))
        if self.sends_at_once:
            self._add(
                Flow(
                    name,
                    worker,
                    self.server,
                    self._sizes[name],
                    self._sizes[name],
                    self.now,
                    "update",
                    (name,),
                )
            )
        self._tell(
            UpdateReady(
                Update(
                    name,
                    worker,
                    self._sizes[name],
                    self.held[worker],
                    self.now,
                    self.norms(name),
                )
            )
        )

    def _finish(self, flow: Flow) -> None:
        while coming := [source for source in flow.behind if source.id in self.flows]:
            flow = coming[0]  # both end now
        del self.flows[flow.id]
        seen = flow.size / (self.now - flow.started)
        if flow.kind == "model":
            self.held[flow.dst] = flow_version = int(flow.updates[0])
            assert flow_version <= self.version
            self.served[flow.dst] += 1
            self._after(self.compute_s[flow.dst], flow.dst)
        elif flow.dst == self.server:
            self._at_server[flow.id] = flow.updates
            self._sent[flow.id] = flow.src, flow.updates
        elif flow.dst == self.replica:
            self._at_replica[flow.id] = flow.updates
        else:
            for name in flow.updates:
                self._where[name] = flow.dst
        self._tell(TransferDone(flow.id, int(flow.size), seen))

    def _tell(self, event: object) -> None:
        for action in self.coordinator.handle(event, self.now):
            self.log.append((self.now, action))
            self._perform(action)

    def _perform(self, action: object) -> None:
        match action:
            case StartTransfer(transfer, kind, updates, src, dst, inputs):
                behind = tuple(self.flows[name] for name in inputs if name in self.flows)
                assert all(flow.dst == src for flow in behind)
                coming = Counter(name for flow in behind for name in flow.updates)
                assert coming.keys() <= set(updates)
                assert set(coming.values()) <= {1}
                there = [name for name in updates if name not in coming]
                assert all(self._where[name] == src for name in there), "not there to be sent"
                size = max(self._sizes[name] for name in updates)
                self._add(Flow(transfer, src, dst, size, size, self.now, kind, updates, behind))
            case CancelTransfer(transfer):
                self.flows.pop(transfer, None)
            case DropUpdate(update, worker):
                self._settle(update, worker, "dropped")
            case CopyGroup(transfer, source, updates, src, dst):
                assert dst == self.replica
                assert self._sent[source] == (src, updates), "the source sent something else"
                size = max(self._sizes[name] for name in updates)
                self._add(Flow(transfer, src, dst, size, size, self.now, "copy", updates))
            case CommitAtReplica(transfers, updates, version):
                brought = [name for copy in transfers for name in self._at_replica.pop(copy)]
                assert brought == list(updates)
                assert version == len(self.followed)
                self.followed += updates
                assert self.followed == self.committed[: len(self.followed)], "another order"
                self._after(0.001, ReplicaCommitted(len(self.followed)))
            case CommitGroup(transfers, updates, workers, delays, version, scales, divergence):
                brought = [name for transfer in transfers for name in self._at_server.pop(transfer)]
                assert brought == list(updates)
                assert len(scales) == len(transfers)
                assert version == self.version, "commits must follow one another"
                for update, worker, delay in zip(updates, workers, delays, strict=True):
                    assert delay == version - self._pulled[update]
                    self.delays.append(delay)
                    self._settle(update, worker, "applied")
                self.version += len(updates)
                self.committed += updates
                if divergence is not None:
                    self._check_lag(*divergence, len(updates))
            case DistributeModel(version, since, edges):
                assert version == self.version
                assert len({dst for *_, dst in edges}) == len(edges)
                bringing: dict[str, Flow] = {}
                for transfer, src, dst in edges:
                    assert self.held[dst] >= since
                    flow = Flow(
                        transfer,
                        src,
                        dst,
                        self.n_bytes,
                        self.n_bytes,
                        self.now,
                        "model",
                        (str(version),),
                        (bringing[src],) if src in bringing else (),
                    )
                    bringing[dst] = flow
                    self._add(flow)
            case WakeAt(at):
                self._after(max(at - self.now, 0.0), "wake")

    def _check_lag(self, promised: float, bound: float | None, newest: int) -> None:
        """What the replica lacks is no more than promised, and within the bound; only what it gets
        together with the server may be beyond."""
        lacking = self.committed[len(self.followed) :]
        lag = sum(map(self.norms, lacking))
        assert lag <= promised * (1 + 1e-9), "further behind than promised"
        together = len(lacking) == newest
        assert together or (bound is not None and promised <= bound)
        self.lags.append((promised, bound, together))

    def _settle(self, update: str, worker: str, fate: str) -> None:
        assert self.fate[update] == 0, f"{update} was settled twice"
        self.fate[update] = 1 if fate == "applied" else -1
        self._after_settled(worker)

    def _after_settled(self, worker: str) -> None:
        heapq.heappush(self._timers, (self.now, next(self._order), _Request(worker)))

    def _add(self, flow: Flow) -> None:
        assert flow.id not in self.flows
        self.flows[flow.id] = flow
        heapq.heappush(
            self._timers, (self.now + self.report_after_s, next(self._order), _Look(flow.id))
        )

    def _look(self, name: str) -> None:
        """The receiver tells how a transfer is coming along."""
        flow = self.flows.get(name)
        if flow is not None and flow.size > flow.left:
            arrived = flow.size - flow.left
            rate = arrived / (self.now - flow.started)
            self._tell(TransferProgress(name, int(arrived), rate))

    def _share(self) -> None:
        """Max-min fair rates; a forwarded flow goes no faster than what it forwards."""
        left = {(h, way): rate for h, rate in self.rates.items() for way in ("out", "in")}
        open_ = set(self.flows)
        for flow in self.flows.values():
            flow.rate = 0.0
        while open_:
            users = Counter(
                link
                for f in open_
                for link in ((self.flows[f].src, "out"), (self.flows[f].dst, "in"))
            )
            link = min(users, key=lambda item: left[item] / users[item])
            share = left[link] / users[link]
            for name in [
                f for f in open_ if link in ((self.flows[f].src, "out"), (self.flows[f].dst, "in"))
            ]:
                flow = self.flows[name]
                flow.rate = share
                left[(flow.src, "out")] -= share
                left[(flow.dst, "in")] -= share
                open_.remove(name)
        for flow in self.flows.values():
            for source in flow.behind:
                if source.id in self.flows:
                    share_left = flow.left / max(source.left, 1e-9)
                    flow.rate = min(flow.rate, source.rate * share_left)


class _Look(str):
    """It is time to see how a flow is coming along."""


class _Request(str):
    """A worker asks for a model."""
