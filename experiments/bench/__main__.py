"""Runs the benchmarks named, or every one: `python -m experiments.bench [name ...]`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from experiments.bench import fidelity, gap, planner, scale, transport, virtual
from mlfabric.errors import MlfabricError

BENCHES = {
    "transport": transport.main,
    "fidelity": fidelity.main,
    "planner": planner.main,
    "planner_gap": lambda: gap.main([]),
    "virtual": virtual.main,
    "scale": scale.main,
}


def main(names: Sequence[str]) -> int | str:
    """The worst exit status, or one line where something is not as it must be."""
    for name in names:
        if name not in BENCHES:
            return f"bench: '{name}' is none; allowed: {', '.join(BENCHES)}"
    try:
        return max(BENCHES[name]() for name in names or BENCHES)
    except MlfabricError as error:
        return f"bench: {error}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
