"""Settings of the whole suite."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# Shared memory of Open MPI, which tests that import it need not, would stay behind: 16 MB a time.
os.environ.setdefault("OMPI_MCA_btl", "tcp,self")

# A shell starts what runs in the background with interrupts ignored, which are tested.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ALONE = ("mpi", "emulation", "browser")

# A first call compiles, and machines are noisy: no example is too slow.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).parts[0] in ALONE:
            item.add_marker(pytest.mark.alone)
