"""One rank of the transport benchmark: `python -m experiments.bench.transport_rank OUT_DIR`."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.transport import CHUNK_BYTES, HOSTS, INCAST_SENDERS, REPETITIONS, SIZE_BYTES
from experiments.mpiexec import RANK_VARIABLE
from mlfabric.emulation.hosts import enter


def main(out_dir: Path) -> None:
    """Measure in turn; rank 0 only receives, and writes what it saw."""
    enter(HOSTS[int(os.environ[RANK_VARIABLE])])
    from mlfabric.engines.mpi.transport import Transport

    transport = Transport.of_world(CHUNK_BYTES)
    everyone = range(1, transport.size)
    bench = Bench(transport)
    bench.receive_from(everyone, 1)  # connections are made, and congestion windows opened
    report = {
        "pair_s": [bench.receive_from([1], SIZE_BYTES) for _ in range(REPETITIONS)],
        "incast_s": [
            bench.receive_from(range(1, 1 + INCAST_SENDERS), SIZE_BYTES) for _ in range(REPETITIONS)
        ],
        "idle_cpu_s": bench.idle(5.0),
    }
    if transport.rank == 0:
        (out_dir / "transport.json").write_text(json.dumps(report))
    transport.close()


class Bench:
    """Rounds that every rank takes part in; each starts when rank 0 says so."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._inbox: list[tuple[int, Any]] = []
        self._arrived = 0
        transport.on_message = lambda src, message: self._inbox.append((src, message))
        transport.on_chunk = self._on_chunk

    def receive_from(self, senders: Any, n_bytes: int) -> float:
        """Seconds from the word to go until rank 0 holds all of what every sender sends."""
        transport = self._transport
        if transport.rank == 0:
            self._arrived = 0
            started = time.monotonic()
            for rank in senders:
                transport.send(rank, "go")
            self._until(lambda: self._arrived == len(senders))
            return time.monotonic() - started
        if transport.rank in senders:
            self._until(lambda: bool(self._inbox))
            self._inbox.clear()
            transport.stream(0, {}, np.zeros(n_bytes, np.uint8))
            self._until(lambda: not transport.busy)
        return 0.0

    def idle(self, seconds: float) -> float:
        """CPU seconds of all ranks together while they wait for messages that do not come."""
        self._barrier()
        before, until = _cpu_s(), time.monotonic() + seconds
        self._until(lambda: time.monotonic() > until)
        return float(self._transport.comm.allreduce(_cpu_s() - before)) / seconds

    def _barrier(self) -> None:
        request = self._transport.comm.Ibarrier()
        self._until(request.Test)

    def _on_chunk(self, stream: Any) -> None:
        self._arrived += stream.done

    def _until(self, finished: Callable[[], bool]) -> None:
        from mlfabric.engines.mpi.node import BUSY_NAP_S, IDLE_AFTER, IDLE_NAP_S

        quiet = 0
        while not finished():
            quiet = 0 if self._transport.poll() else quiet + 1
            idle = quiet > IDLE_AFTER and not self._transport.busy
            if quiet:
                time.sleep(IDLE_NAP_S if idle else BUSY_NAP_S)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main(Path(sys.argv[1]))
