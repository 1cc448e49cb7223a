"""A tree over which a model version reaches the workers that wait for it [ours]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Edge:
    """`src` passes the model on to `dst`, chunk by chunk; `end_s` is when `dst` holds all of it."""

    src: str
    dst: str
    end_s: float


def plan_tree(
    server: str,
    receivers: Sequence[str],
    egress: Mapping[str, float],
    ingress: Mapping[str, float],
    n_bytes: int,
    hop_latency_s: float,
) -> tuple[Edge, ...]:
    """Attach each receiver where the model reaches it first, the fastest receivers first.

    `egress` and `ingress` are free bytes/s of every host; a hop forwards chunks as they arrive and
    adds `hop_latency_s`. Between equal ends a worker is preferred to the server (R1), and among
    workers the earlier one. Edges come parents first. Receivers need some ingress, and at least
    one host some egress.
    """
    left = dict(egress)
    arrival = {server: 0.0}
    edges: list[Edge] = []
    for receiver in sorted(receivers, key=lambda host: -ingress[host]):
        ends = {
            host: _end(arrival[host], min(left[host], ingress[receiver]), n_bytes, hop_latency_s)
            for host in arrival
        }
        source = min(ends, key=lambda host: (round(ends[host], 9), host == server))
        left[source] -= min(left[source], ingress[receiver])
        arrival[receiver] = ends[source]
        edges.append(Edge(source, receiver, ends[source]))
    return tuple(edges)


def _end(parent_end: float, bytes_per_s: float, n_bytes: int, hop_latency_s: float) -> float:
    if bytes_per_s <= 0:
        return float("inf")
    return max(parent_end, n_bytes / bytes_per_s) + hop_latency_s
