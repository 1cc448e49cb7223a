"""Settings of the whole suite."""

from __future__ import annotations

from hypothesis import settings

# A first call compiles, and machines are noisy: no example is too slow.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")
