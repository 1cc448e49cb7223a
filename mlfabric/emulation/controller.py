"""Plays a straggler trace on the emulated network while a run goes on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from mlfabric.emulation.rates import RateBoard
from mlfabric.emulation.spec import BubbleSpec

CLOCK_FILE = "clock_start"
BOARD_FILE = "rates.bin"
APPLIED_FILE = "network_applied.csv"

_CLOCK_POLL_S = 0.010


class TraceController:
    """Applies each rate event when its time has come; idle before the run's clock starts."""

    def __init__(self, spec: BubbleSpec, set_rate: Callable[[int, float], None]) -> None:
        self._clock_file = spec.run_dir / CLOCK_FILE
        self._bandwidths = {h.name: (i, h.bandwidth_bytes_per_s) for i, h in enumerate(spec.hosts)}
        self._pending = deque(spec.rate_events)
        self._set_rate = set_rate
        self._clock_start_s: float | None = None
        self._board = RateBoard.create(
            spec.run_dir / BOARD_FILE, [host.bandwidth_bytes_per_s for host in spec.hosts]
        )
        self._applied = _open_applied(spec.run_dir / APPLIED_FILE)

    def play(self, now_s: float) -> float | None:
        """Apply what is due at this CLOCK_MONOTONIC time.

        Returns:
            Seconds until it should be called again, None for never.
        """
        if not self._pending:
            return None
        if self._clock_start_s is None:
            self._clock_start_s = _read_clock(self._clock_file)
            if self._clock_start_s is None:
                return _CLOCK_POLL_S
            self._catch_up(now_s - self._clock_start_s)
        elapsed_s = now_s - self._clock_start_s
        while self._pending and self._pending[0].time_s <= elapsed_s:
            self._apply(elapsed_s)
        return max(0.0, self._pending[0].time_s - elapsed_s) if self._pending else None

    def _catch_up(self, elapsed_s: float) -> None:
        """A clock that starts late has passed over events: the last one of each host counts."""
        passed = [event for event in self._pending if event.time_s <= elapsed_s]
        last = {event.host: event for event in passed}
        kept = [event for event in passed if last[event.host] is event]
        self._pending = deque([*kept, *list(self._pending)[len(passed) :]])

    def close(self) -> None:
        self._applied.close()
        self._board.close()

    def _apply(self, elapsed_s: float) -> None:
        event = self._pending.popleft()
        index, bandwidth = self._bandwidths[event.host]
        rate = bandwidth * event.factor
        self._set_rate(index, rate)
        self._board.set(index, rate)
        self._applied.write(f"{elapsed_s:.6f},{event.host},{event.factor},{rate}\n")


def _open_applied(path: Path) -> TextIO:
    file = path.open("a", buffering=1)
    if not file.tell():  # else the run goes on
        file.write("time_s,host,factor,rate_bytes_per_s\n")
    return file


def _read_clock(path: Path) -> float | None:
    try:
        return float(path.read_text())
    except FileNotFoundError:
        return None
