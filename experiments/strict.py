"""How settings are read: nothing unknown, nothing of another type, no NaN."""

from __future__ import annotations

from pydantic import ConfigDict

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
