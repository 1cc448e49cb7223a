"""A file of JSON lines that another process still appends to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Tail:
    """Reads each row once, and only once its line is whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def rows(self) -> list[Mapping[str, Any]]:
        """The rows appended since the last call; none while the file is absent."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        return [json.loads(line) for line in whole.splitlines()]
