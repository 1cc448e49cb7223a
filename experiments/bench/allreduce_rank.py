"""One host of the all-reduce benchmark, started by experiments.bench.allreduce."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.bench.allreduce_cases import CASES, GLANCE, HOSTS, LEARNING, RATE
from experiments.mpi_library import this_rank
from experiments.plan import MAX_CHUNK_BYTES
from mlfabric.emulation.hosts import INTERFACE, address, enter

Vector = NDArray[np.float32]
Reduce = Callable[[Vector], Vector]


def main(folder: Path, contender: str, case_name: str) -> None:
    """All operations of a case, one size after another; writes when each ended."""
    rank = this_rank()
    enter(HOSTS[rank])
    case = next(case for case in (*CASES, *GLANCE) if case.name == case_name)
    reduce, close = _contender(contender, rank, folder)
    reduce(np.ones(1, np.float32))  # connections are made
    if rank == 0:
        (folder / "clock_start").write_text(repr(time.monotonic()))
    found = {}
    for size, count in case.sizes.items():
        vector = np.full(size // 4, rank + 1, np.float32)
        ends_s, begun = [], 0.0
        for number in range(LEARNING + count):
            if number == LEARNING:
                begun = _cpu_s()
            summed = reduce(vector)
            ends_s.append(time.monotonic())
        expected = len(HOSTS) * (len(HOSTS) + 1) / 2
        assert (summed == expected).all(), "a wrong sum"
        cpu_s = _cpu_s() - begun
        found[size] = {"ends_s": ends_s[LEARNING - 1 :], "cpu_s": cpu_s}
    (folder / f"{HOSTS[rank]}.json").write_text(json.dumps(found))
    close()


def _contender(name: str, rank: int, folder: Path) -> tuple[Reduce, Callable[[], None]]:
    """What sums a vector over all hosts, and what ends it."""
    if name == "gloo":
        return _gloo(rank)
    if name.startswith("MPI_Allreduce"):
        return _library()
    return _ours(name, folder)


def _gloo(rank: int) -> tuple[Reduce, Callable[[], None]]:
    os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # hosts have no names here, it warns
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ |= {"GLOO_SOCKET_IFNAME": INTERFACE, "MASTER_ADDR": address(0)}
    os.environ |= {"MASTER_PORT": "29500"}
    dist.init_process_group("gloo", rank=rank, world_size=len(HOSTS))

    def reduce(vector: Vector) -> Vector:
        tensor = torch.from_numpy(vector.copy())
        dist.all_reduce(tensor)
        summed: Vector = tensor.numpy()
        return summed

    return reduce, dist.destroy_process_group


def _library() -> tuple[Reduce, Callable[[], None]]:
    from mlfabric.engines.mpi.library import library_all_reduce

    return library_all_reduce, lambda: None


def _ours(policy: str, folder: Path) -> tuple[Reduce, Callable[[], None]]:
    """As a run has it. MPI opens its sockets where the process is when it is imported."""
    from mlfabric import policies
    from mlfabric.engines.mpi.node import Node
    from mlfabric.engines.mpi.plan import RankPlan
    from mlfabric.engines.roles.allreduce import AllReduce
    from mlfabric.payload import Payload, dense
    from mlfabric.policies.base import PolicyContext

    context = PolicyContext(
        HOSTS[0], HOSTS, dict.fromkeys(HOSTS, RATE), 4, MAX_CHUNK_BYTES, 1.0, 0, {}
    )
    plan = RankPlan(
        run_dir=folder,
        hosts=HOSTS,
        policy=policy,
        context=context,
        conserved=False,
        step_scale=1.0,
        nominal_s=1.0,
        computation_s=lambda worker, iteration: 0.0,
        read_rates=None,
        max_seconds=3600.0,
        snapshot_interval_s=3600.0,
        watchdog_s=60.0,
    )
    node = Node.of_world(plan)
    done: list[Payload] = []
    node.sums_densely()
    sums = AllReduce(node, policies.module(policy).build(context), done.append)

    node.start_clock()

    def reduce(vector: Vector) -> Vector:
        sums.start(dense(vector))
        node.run_until(lambda: bool(done))
        summed: Vector = done.pop().values
        return summed

    return reduce, node.close


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
