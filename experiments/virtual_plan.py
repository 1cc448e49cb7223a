"""Typed settings to the plan of a run on the virtual clock: its network, its bytes, its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from experiments.plan import common_plan, policy_context, rate_events
from experiments.schema import RunConfig
from experiments.sections import ClusterConfig, VirtualEngineConfig
from mlfabric.engines.virtual.plan import VirtualPlan, Wire
from mlfabric.topology import Link, Topology


def virtual_plan(config: RunConfig, conserved: bool, model: NDArray[Any] | None) -> VirtualPlan:
    """What the virtual engine is told; `model` is the one trained, None where nothing is."""
    cluster, engine = config.cluster, config.engine
    assert isinstance(engine, VirtualEngineConfig)
    above = racks(config)
    rates = line_rates(config, above)
    size, scale = dense_bytes(config, model), wire(cluster, model).byte_scale
    return VirtualPlan(
        **common_plan(config, conserved),
        context=policy_context(config, size, Topology(above), rates, scale),
        link_bytes_per_s=link_rates(rates, above),
        rate_events=tuple(rate_events(config)),
        max_updates=engine.max_updates,
        wire=wire(cluster, model),
        message_s=cluster.message_s,
        hop_s=cluster.hop_s,
        startup_s=cluster.startup_s,
        share_spread=cluster.share_spread,
        goodput=cluster.goodput,
        reserved_rates=cluster.transport == "reserved",
        collective=engine.collective,
        lost_after_s=engine.lost_after_s,
    )


def wire(cluster: ClusterConfig, model: NDArray[Any] | None) -> Wire:
    """How bytes of the model become bytes of the wire; without one, every share has one size."""
    if model is None:
        assert cluster.update_bytes is not None
        share = cluster.update_bytes / cluster.servers
        return Wire(byte_scale=1.0, nominal_bytes=round(share))
    scale = 1.0 if cluster.update_bytes is None else cluster.update_bytes / model.nbytes
    return Wire(byte_scale=scale, nominal_bytes=None)


def dense_bytes(config: RunConfig, model: NDArray[Any] | None) -> int:
    """Size of a dense model or update on the wire."""
    if config.cluster.update_bytes is not None:
        return round(config.cluster.update_bytes)
    assert model is not None
    return model.nbytes


def racks(config: RunConfig) -> dict[str, str]:
    """The rack, r1, r2, …, of every worker; scheduler and servers apart hang on the core itself."""
    size = config.cluster.hosts_per_rack
    if size is None:
        return {}
    return {
        worker: f"r{place // size + 1}" for place, worker in enumerate(config.cluster.worker_hosts)
    }


def line_rates(config: RunConfig, above: Mapping[str, str]) -> dict[str, float]:
    """Nominal bytes/s of every host's interface and of every rack's uplink, each way."""
    cluster = config.cluster
    uplink = cluster.uplink_bytes_per_s
    if uplink is None:
        uplink = cluster.bandwidth_bytes_per_s * (cluster.hosts_per_rack or 0)
    interfaces = dict.fromkeys(config.hosts, cluster.bandwidth_bytes_per_s)
    return interfaces | dict.fromkeys(above.values(), uplink)


def link_rates(rates: Mapping[str, float], above: Mapping[str, str]) -> dict[Link, float]:
    """Nominal bytes/s of both links of every host and every rack."""
    switches = set(above.values())
    return {
        Link(name, direction): rate
        for name, rate in rates.items()
        for direction in (("up", "down") if name in switches else ("egress", "ingress"))
    }
