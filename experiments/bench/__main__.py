"""Runs the benchmarks named, or every one: `python -m experiments.bench [name ...]`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from experiments.bench import (
    allreduce,
    checkpoints,
    fidelity,
    gap,
    planner,
    recovery,
    sampler,
    scale,
    servers,
    transport,
    userspace,
    virtual,
)
from mlfabric.errors import MlfabricError

BENCHES = {
    "transport": transport.main,
    "allreduce": allreduce.main,
    "userspace": userspace.main,
    "fidelity": fidelity.main,
    "planner": planner.main,
    "planner_gap": lambda: gap.main([]),
    "virtual": virtual.main,
    "scale": scale.main,
    "servers": servers.main,
    "sampler": sampler.main,
    "recovery": recovery.main,
    "checkpoints": checkpoints.main,
}


def main(names: Sequence[str]) -> int:
    """The worst exit status; 2 where a name is none."""
    for name in names:
        if name not in BENCHES:
            print(f"bench: '{name}' is none; allowed: {', '.join(BENCHES)}", file=sys.stderr)
            return 2
    try:
        return max(BENCHES[name]() for name in names or BENCHES)
    except MlfabricError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
