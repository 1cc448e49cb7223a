"""What variants and settings are called, wherever they are named to people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def variant_name(
    policy: str,
    aggregation: str | None,
    servers: int = 1,
    *,
    colocated: bool = False,
    replication: str | None = None,
) -> str:
    """Name of a run's variant: the policy's, its aggregation unless the paper's, its replication
    where there is one, and its servers unless that is one on a host of its own."""
    name = policy if aggregation in (None, "paper") else f"{policy} {aggregation}"
    if replication is not None:
        name = f"{name}, {replication}"
    if servers == 1 and not colocated:
        return name
    where = " beside workers" if colocated else ""
    return f"{name}, {servers} server{'s' if servers > 1 else ''}{where}"


def replication_name(settings: Mapping[str, Any]) -> str | None:
    """What a run's section `replication` is called: chain, bounded 8 (rounds), bounded by 2.5;
    None where there is no replica."""
    kind = settings["name"]
    if kind != "bounded":
        return None if kind == "none" else str(kind)
    bound = settings["divergence_bound"]
    return f"bounded {settings['bound_rounds']:g}" if bound is None else f"bounded by {bound:g}"


def flat_params(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Settings named as their configuration keys, such as cluster.workers."""
    flat: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flat_params(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = "null" if value is None else str(value)
    return flat
