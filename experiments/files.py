"""Writing the small files of a run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
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
