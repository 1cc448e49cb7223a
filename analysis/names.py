"""What variants are called, wherever they are named to people."""

from __future__ import annotations


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
