"""A run of the engine on counts that can be checked: `count_run RUN_DIR POLICY FAIL SERVERS`.

Every update adds 1 to ten entries, so totals tell how many updates a model holds. FAIL names what
goes wrong: nothing, a raising trainer (raise), one that raises once there is a checkpoint from
which the run can go on (saved, dense saved), a rank that stops answering (hang), a bound that drops
much (tight). With "dense", worker w adds w to all entries; with "paced", on links of 2 MB/s that
are shaped in user space, the first worker's at a quarter of that. SERVERS is a number, or "beside":
each worker's host serves a share, too.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

from mlfabric.checkpoints import Checkpoints
from mlfabric.engines.mpi.main import run
from mlfabric.engines.mpi.plan import RankPlan
from mlfabric.policies import is_collective
from mlfabric.policies.base import PolicyContext
from tests.support.options import OPTIONS

SIZE = 50_000


def is_synchronous(policy: str) -> bool:
    """Whether one worker that hangs holds all others up."""
    return is_collective(policy) or policy in ("sync_ps", "mlfabric_s")


class Counter:
    """Adds 1 to ten entries an update; worker 1 fails in its fourth when told to."""

    def __init__(self, worker: int, fail: str) -> None:
        self._rng = np.random.default_rng(worker)
        self._worker, self._fail, self._done = worker, fail, 0

    def warm_up(self) -> None:
        pass

    def load(self) -> None:
        pass

    def compute(self, view):
        assert view.min() >= 0, "a view went negative"
        self._done += 1
        if self._worker == 1 and self._done == 4:
            if self._fail == "raise":
                raise ValueError("worker 1 had enough")
            if self._fail == "hang":
                time.sleep(1000)
        indices = np.sort(self._rng.choice(SIZE, 10, replace=False)).astype(np.int32)
        return indices, np.ones(10, np.int32)

    def state(self):
        return self._done, self._rng.bit_generator.state

    def restore(self, state):
        self._done, self._rng.bit_generator.state = state


class Dense:
    """Worker w (from 1) adds w to all entries."""

    def __init__(self, worker: int) -> None:
        self._number = worker + 1

    def warm_up(self) -> None:
        pass

    def load(self) -> None:
        pass

    def compute(self, view):
        return None, np.full_like(view, self._number)

    def state(self) -> None:
        pass

    def restore(self, state) -> None:
        pass


class Leaving:
    """Another trainer, until there is a checkpoint."""

    def __init__(self, trainer, checkpoints: Checkpoints) -> None:
        self._trainer, self._checkpoints = trainer, checkpoints

    def __getattr__(self, name):
        return getattr(self._trainer, name)

    def compute(self, view):
        if self._checkpoints.latest() is not None:
            raise ValueError("there is a checkpoint")
        return self._trainer.compute(view)


RATE = 2e6


def rates(hosts):
    """Bytes/s of every host's link at any time."""
    return lambda now: [RATE / 4 if host == "w1" else RATE for host in hosts]


def main(run_dir: Path, policy: str, fail: str, count: str) -> None:
    ranks = MPI.COMM_WORLD.Get_size()
    apart = 0 if count == "beside" else int(count)
    workers = tuple(f"w{i + 1}" for i in range(ranks - 1 - apart))
    servers = tuple(f"server{i + 1}" for i in range(apart)) or workers
    hosts = tuple(dict.fromkeys(("scheduler", *servers, *workers)))
    policy, _, aggregation = policy.partition(" ")
    options = OPTIONS | {"delay_bound": 2 if fail == "tight" else None}
    options |= {"aggregation": aggregation or "paper", "probes": fail == "paced"}
    context = PolicyContext(
        servers[0], workers, dict.fromkeys(hosts, 1e8), 4 * SIZE, 16_384, 1.5, 0, options
    )
    checkpoints = Checkpoints(run_dir)
    is_dense = fail.startswith("dense") or fail == "paced"
    plan = RankPlan(
        run_dir=run_dir,
        hosts=hosts,
        servers=servers,
        policy=policy,
        context=context,
        conserved=not is_dense,
        step_scale=1.0,
        nominal_s=0.02,
        computation_s=lambda worker, iteration: 0.02 * (1 + (worker + iteration) % 3),
        read_rates=rates(hosts) if fail == "paced" else None,
        paced=fail == "paced",
        max_seconds=60.0 if fail == "hang" and is_synchronous(policy) else 2.0,
        snapshot_interval_s=0.5,
        watchdog_s=2.0 if fail == "hang" else 20.0,
        checkpoint=checkpoints.latest(),
        checkpoint_interval_s=0.5,
    )

    def trainer(worker):
        found = Dense(worker) if is_dense else Counter(worker, fail)
        leaves = fail.endswith("saved") and plan.checkpoint is None and worker == 1
        return Leaving(found, checkpoints) if leaves else found

    run(plan, trainer)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
