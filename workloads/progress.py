"""How far long work is, printed now and then."""

from __future__ import annotations

import time

_INTERVAL_S = 1.0


class Ticker:
    """Prints what it is told, at most once a second."""

    def __init__(self) -> None:
        self._next_s = time.monotonic() + _INTERVAL_S

    def __call__(self, text: str) -> None:
        if time.monotonic() >= self._next_s:
            print(text, flush=True)
            self._next_s = time.monotonic() + _INTERVAL_S
