"""Small runs on the virtual clock, and what their rows say."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlfabric.engines.virtual import VirtualPlan, Wire, run
from mlfabric.policies.base import PolicyContext
from mlfabric.topology import BIG_SWITCH, Link
from tests.support.options import OPTIONS


def virtual_plan(
    policy: str, workers: int, *, options: dict[str, Any] | None = None, **changes: Any
) -> VirtualPlan:
    """Equal links of 1 MB/s, computations that take 0.1 s or a little more."""
    names = tuple(f"w{number + 1}" for number in range(workers))
    count, colocated = changes.pop("servers", 1), changes.pop("colocated", False)
    own = ("server",) if count == 1 else tuple(f"server{n + 1}" for n in range(count))
    servers = names[:count] if colocated else own
    replication = changes.pop("replication", None)
    apart = () if replication is None else (replication.host,)
    hosts = tuple(dict.fromkeys(("scheduler", *servers, *names, *apart)))
    rate = changes.pop("bytes_per_s", 1e6)
    topology = changes.pop("topology", BIG_SWITCH)
    uplinks = dict.fromkeys(topology.above.values(), changes.pop("uplink_bytes_per_s", rate))
    links = {Link(host, way): rate for host in hosts for way in ("egress", "ingress")}
    links |= {Link(s, way): up for s, up in uplinks.items() for way in ("up", "down")}
    context = PolicyContext(
        server=servers[0],
        workers=names,
        line_bytes_per_s=dict.fromkeys(hosts, rate) | uplinks,
        model_bytes=changes.pop("model_bytes", 100_000),
        chunk_bytes=changes.pop("chunk_bytes", 10_000),
        straggler_period_s=1.5,
        seed=0,
        options=OPTIONS | (options or {}),
        topology=topology,
        replication=replication,
    )
    settings: dict[str, Any] = {
        "conserved": False,
        "step_scale": 1.0,
        "nominal_s": 0.1,
        "computation_s": lambda worker, i: 0.1 * (1 + 0.1 * ((3 * worker + 7 * i) % 5)),
        "max_seconds": 5.0,
        "snapshot_interval_s": 0.5,
        "rate_events": (),
        "max_updates": None,
        "wire": Wire(nominal_bytes=context.model_bytes // count),
        "message_s": 0.001,
        "hop_s": 0.0001,
        "startup_s": 0.002,
        "share_spread": 0.0,
        "goodput": 1.0,
        "reserved_rates": False,
        "collective": "flow",
    }
    return VirtualPlan(
        hosts=hosts,
        servers=servers,
        policy=policy,
        context=context,
        link_bytes_per_s=links,
        **settings | changes,
    )


def timed(plan: VirtualPlan) -> list[dict[str, Any]]:
    """The rows of a run in which nothing is computed."""
    return run(plan, np.zeros(1, np.float32), _none, lambda *seen: False, lambda *seen: None)


def of(rows: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Rows of a kind."""
    return [row for row in rows if row["row"] == kind]


def _none(worker: int) -> Any:
    raise AssertionError("no trainer is made where nothing is computed")
