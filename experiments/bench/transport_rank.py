"""One rank of the transport benchmark, started by experiments.bench.transport."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.bench.transport import (
    HOSTS,
    INCAST_SENDERS,
    LONE_BYTES,
    REPETITIONS,
    SIZE_BYTES,
)
from experiments.mpi_library import this_rank
from mlfabric.emulation.hosts import enter

if TYPE_CHECKING:
    from mlfabric.engines.mpi.node import Node

IDLE_S = 5.0
PINGS, PING_PAUSE_S = 100, 0.02
"""Messages a host handles in a run come about 50 a second."""

LONE_TRANSFERS, LONE_PAUSE_S = 20, 0.4
"""As far apart as a worker's transfers."""

MEETINGS = 20
"""So often all senders' updates meet at one link."""


def main(out_dir: Path, chunk_bytes: int) -> None:
    """Measure in turn; rank 0 receives, and writes what it saw."""
    enter(HOSTS[this_rank()])
    bench = Bench(_node(out_dir, chunk_bytes))
    bench.receive_from(range(1, len(HOSTS)), 1)  # connections are made
    incast = range(1, 1 + INCAST_SENDERS)
    report = {
        "pair_s": [bench.receive_from([1], SIZE_BYTES) for _ in range(REPETITIONS)],
        "incast_s": [bench.receive_from(incast, SIZE_BYTES) for _ in range(REPETITIONS)],
        "idle_cores": bench.idle_cores(),
        "message_s": bench.message_s(),
        "lone_s": [bench.lone_s() for _ in range(LONE_TRANSFERS)],
        "meeting_s": [bench.meeting_s(incast) for _ in range(MEETINGS)],
    }
    bench.end()
    if bench.node.rank == 0:
        (out_dir / "transport.json").write_text(json.dumps(report))
    bench.node.transport.close()


def _node(out_dir: Path, chunk_bytes: int) -> Node:
    """A rank as in a run. MPI opens its sockets where the process is when it is imported."""
    from mlfabric.engines.mpi.node import Node
    from mlfabric.engines.mpi.plan import RankPlan
    from mlfabric.policies.base import PolicyContext

    context = PolicyContext(HOSTS[1], HOSTS[2:], {}, SIZE_BYTES, chunk_bytes, 1.0, 0, {})
    plan = RankPlan(
        run_dir=out_dir,
        hosts=HOSTS,
        policy="async_ps",
        context=context,
        conserved=False,
        step_scale=1.0,
        nominal_s=1.0,
        computation_s=lambda worker, iteration: 1.0,
        read_rates=None,
        max_seconds=60.0,
        snapshot_interval_s=60.0,
        watchdog_s=60.0,
    )
    return Node.of_world(plan)


class Bench:
    """Rounds that every rank takes part in; each starts when rank 0 says so."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._told = 0
        self._arrived_s: list[float] = []
        node.on("send", self._send)
        node.on("ping", lambda src, body: node.send(src, "pong"))
        node.on("pong", self._pong)
        node.on("over", lambda src, body: setattr(self, "_over", True))
        node.on("idle", self._idle)
        node.on("cpu", self._add_cpu)
        node.on("heartbeat", lambda src, body: None)
        node.transport.on_stream = None  # these streams are no role's
        node.transport.on_chunk = self._on_chunk
        self._cpu: dict[str, float] = {}
        self._pongs = 0
        self._over = False

    def receive_from(self, senders: Collection[int], n_bytes: int) -> float:
        """Seconds from the word to go until rank 0 holds all of what every sender sends."""
        if self.node.rank != 0:
            return 0.0
        self._arrived_s = []
        started = time.monotonic()
        for rank in senders:
            self.node.send(HOSTS[rank], "send", n_bytes)
        self.node.run_until(lambda: len(self._arrived_s) == len(senders))
        return time.monotonic() - started

    def idle_cores(self) -> float:
        """Cores that all ranks together keep busy while they wait for what does not come."""
        if self.node.rank == 0:
            self.node.send_all("idle")
        self.node.run_until(lambda: self._told > 0)
        before, until = _cpu_s(), time.monotonic() + IDLE_S
        self.node.run_until(lambda: time.monotonic() > until)
        self.node.send(HOSTS[0], "cpu", _cpu_s() - before)
        if self.node.rank == 0:
            self.node.run_until(lambda: len(self._cpu) == len(HOSTS))
        return sum(self._cpu.values()) / IDLE_S

    def message_s(self) -> float:
        """From one host's order to send a control message to another host's handler: the mean."""
        if self.node.rank == 0:
            spent = 0.0
            for ping in range(PINGS):
                self._pause(PING_PAUSE_S)
                started = time.monotonic()
                self.node.send(HOSTS[1], "ping")
                self.node.run_until(lambda: self._pongs > ping)  # noqa: B023
                spent += time.monotonic() - started
            return spent / PINGS / 2
        return 0.0

    def lone_s(self) -> float:
        """An update's transfer, alone on its links, after a pause."""
        if self.node.rank != 0:
            return 0.0
        self._pause(LONE_PAUSE_S)
        return self.receive_from([1], LONE_BYTES)

    def meeting_s(self, senders: Collection[int]) -> list[float]:
        """Updates that meet at one link, after a pause: when each one has come."""
        if self.node.rank != 0:
            return []
        self._pause(LONE_PAUSE_S)
        started = time.monotonic()
        self.receive_from(senders, LONE_BYTES)
        return [arrived - started for arrived in self._arrived_s]

    def end(self) -> None:
        """Other ranks serve rank 0 until it has measured everything."""
        if self.node.rank == 0:
            for host in HOSTS[1:]:
                self.node.send(host, "over")
        else:
            self.node.run_until(lambda: self._over)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self.node.run_until(lambda: time.monotonic() > until)

    def _pong(self, src: str, body: Any) -> None:
        self._pongs += 1

    def _send(self, src: str, n_bytes: int) -> None:
        header: dict[str, Any] = {}
        self.node.transport.stream(HOSTS.index(src), header, np.zeros(n_bytes, np.uint8))

    def _idle(self, src: str, body: Any) -> None:
        self._told += 1

    def _add_cpu(self, src: str, cpu_s: float) -> None:
        self._cpu[src] = cpu_s

    def _on_chunk(self, stream: Any) -> None:
        if stream.done:
            self._arrived_s.append(time.monotonic())


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
