"""Links shaped in user space: a sender's token bucket, and credits that a receiver grants.

For machines that allow no shaped namespaces, and for real clusters: what crosses a host's link is
held to the rate that the link is to have. A chunk goes when its receiver has granted it and its
sender's link has room; a receiver grants no more than its own link carries, to all that send to it
in turn, so that they share it fairly.
"""

from __future__ import annotations

import time
from collections.abc import Callable

GOODPUT = 1448 / 1514
"""Share of a link's bytes that is payload: frames and headers cross it, too."""

BURST_S = 0.005
"""What a link that was idle may carry at once; longer than a late turn of the loop."""


class TokenBucket:
    """Lets bytes pass at `bytes_per_s()`, in the mean."""

    def __init__(self, bytes_per_s: Callable[[], float]) -> None:
        self._bytes_per_s = bytes_per_s
        self._tokens = 0.0
        self._filled_s = time.monotonic()

    def has_room(self) -> bool:
        """Whether something may pass now."""
        now, rate = time.monotonic(), self._bytes_per_s() * GOODPUT
        gained = rate * (now - self._filled_s)
        self._tokens = min(self._tokens + gained, max(rate * BURST_S, 1.0))
        self._filled_s = now
        return self._tokens > 0

    def take(self, n_bytes: int) -> None:
        """So many bytes pass; the next ones wait until they are made up for."""
        self._tokens -= n_bytes


class Pacing:
    """Both directions of a host's link, whose rate `bytes_per_s()` tells."""

    def __init__(self, bytes_per_s: Callable[[], float]) -> None:
        self.egress = TokenBucket(bytes_per_s)
        self.ingress = TokenBucket(bytes_per_s)
