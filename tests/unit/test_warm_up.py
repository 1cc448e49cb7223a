"""Compiling belongs before a run's clock, never under it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
from numba.core import event
from tests.property.test_scheduler import fluid

network = fluid(
    "mlfabric_a", 5, [1, 0.1, 1, 0.5, 1, 1], [0.1, 0.2, 0.3, 0.1, 0.1, 0.1], delay_bound=4,
    aggregation="paper", aggregator_choice="best_fit", ordering="delay_aware",
)
with event.install_recorder("numba:compile") as recorder:
    network.run(5.0)
assert network.version > 10
print([e.data["dispatcher"].py_func.__name__ for _, e in recorder.buffer if e.is_start])
"""


def test_a_scheduler_compiles_nothing_once_events_come():
    """A fresh process: neither compiling nor loading what an earlier one has compiled."""
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
