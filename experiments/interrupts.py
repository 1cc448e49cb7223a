"""Ctrl-C and its like: the first one ends a run in good order, none can disturb that."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

INTERRUPTED = 130
"""Exit status of what was interrupted, as shells have it."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt_once() -> None:
    """Let the first signal that asks us to end raise KeyboardInterrupt, and ignore all others.

    A hang-up that was ignored before, as under nohup, stays so.
    """
    for number in _SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def told_in_a_line() -> None:
    """An interrupt that nobody answers, as while modules are imported, shows no traceback."""
    before = sys.excepthook

    def tell(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            print("interrupted", file=sys.stderr)
        else:
            before(kind, error, where)

    sys.excepthook = tell


def left_to_parent() -> None:
    """In a process of a pool: be ended without a word; a Ctrl-C is the parent's to answer."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> None:
    for ignored in _SIGNALS:
        signal.signal(ignored, signal.SIG_IGN)
    raise KeyboardInterrupt


@contextmanager
def held_back() -> Iterator[Callable[[], bool]]:
    """Keep signals from disturbing the block; one that came is answered after it.

    The block is given what tells whether one has come.
    """
    came: list[int] = []
    heeded = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {
        number: signal.signal(number, lambda number, frame: came.append(number))
        for number in heeded
    }
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:  # whatever else has ended the block
            signal.raise_signal(came[0])
