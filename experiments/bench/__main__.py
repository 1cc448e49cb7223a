"""Runs every benchmark: `python -m experiments.bench`."""

from __future__ import annotations

import sys

from experiments.bench import gap, planner, transport
from mlfabric.errors import MlfabricError

if __name__ == "__main__":
    try:
        sys.exit(max(transport.main(), planner.main(), gap.main([])))
    except MlfabricError as error:
        sys.exit(f"bench: {error}")
