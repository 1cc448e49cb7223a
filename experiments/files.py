"""Writing the small files of a run; taking turns."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_json(content: Mapping[str, Any], path: Path) -> None:
    """Write a JSON file that appears whole or not at all; ValueError for NaN or infinity."""
    partial = path.with_name(f".{path.name}.partial")
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def alone(path: Path, waits: str) -> Iterator[None]:
    """Hold a lock file in the block; `waits` is said where another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(waits, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
