"""How far a run is: one line that is redrawn on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any, TextIO

_EVERY_S = 10.0  # between two lines where nothing can be redrawn


class Progress:
    """Shows one line of text at a time."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._redraws = self._stream.isatty()
        self._shown_at = time.monotonic()
        self._open = False

    def show(self, text: str) -> None:
        """Replace the line shown; elsewhere than on a terminal at most every ten seconds."""
        if self._redraws:
            width = shutil.get_terminal_size().columns - 1  # a wrapped line cannot be redrawn
            self._stream.write(f"\r\x1b[K{text[:width]}")
            self._open = True
        elif time.monotonic() - self._shown_at >= _EVERY_S:
            self._shown_at = time.monotonic()
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def close(self) -> None:
        """Leave the cursor on a clean line."""
        if self._open:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._open = False


def read_progress(run_dir: Path) -> dict[str, Any]:
    """What the scheduler last said of the run; nothing before it has started."""
    try:
        content: dict[str, Any] = json.loads((run_dir / "progress.json").read_text())
    except FileNotFoundError:
        return {}
    return content


def training_line(progress: dict[str, Any], max_seconds: float, score: str) -> str:
    """Clock, time left, version and last metric of a run under way."""
    if not progress:
        return "starting the cluster"
    elapsed_s = progress["elapsed_s"]
    left_s = max(0.0, max_seconds - elapsed_s)
    return (
        f"{elapsed_s:5.1f} s, {left_s:.0f} s left · version {progress['version']}"
        f" · dropped {progress['dropped']}{score}"
    )
