"""What variants and settings are called, wherever they are named to people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def variant_name(
    policy: str, aggregation: str | None, servers: int = 1, *, colocated: bool = False
) -> str:
    """Name of a run's variant: the policy's, its aggregation unless the paper's, and its servers
    unless that is one on a host of its own."""
    name = policy if aggregation in (None, "paper") else f"{policy} {aggregation}"
    if servers == 1 and not colocated:
        return name
    where = " beside workers" if colocated else ""
    return f"{name}, {servers} server{'s' if servers > 1 else ''}{where}"


def flat_params(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Settings named as their configuration keys, such as cluster.workers."""
    flat: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flat_params(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = "null" if value is None else str(value)
    return flat
