"""Settings of the whole suite."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

ALONE = ("mpi", "emulation", "browser")

# A first call compiles, and machines are noisy: no example is too slow.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] in ALONE:
            item.add_marker(pytest.mark.alone)
