"""Runs every benchmark: `python -m experiments.bench`."""

from __future__ import annotations

import sys

from experiments.bench import fidelity, gap, planner, scale, transport, virtual
from mlfabric.errors import MlfabricError

if __name__ == "__main__":
    try:
        benches = (transport.main, fidelity.main, planner.main, lambda: gap.main([]))
        sys.exit(max(bench() for bench in (*benches, virtual.main, scale.main)))
    except MlfabricError as error:
        sys.exit(f"bench: {error}")
