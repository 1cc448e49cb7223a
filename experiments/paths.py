"""Where things lie in the project, as absolute paths."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONF = ROOT / "conf"
RESULTS = ROOT / "results"
CACHE = RESULTS / "cache"
