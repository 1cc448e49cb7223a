"""Typed settings to what every engine is told."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from experiments.schema import RunConfig
from experiments.sections import (
    REPLICA,
    BoundedReplication,
    ChainReplication,
    KillConfig,
    NoFault,
    PartitionConfig,
    WorkerKillConfig,
)
from mlfabric.emulation.spec import NO_LINK, RateEvent
from mlfabric.emulation.stragglers import (
    ComputeStragglers,
    NetworkStragglers,
    compute_factors,
    network_events,
    read_trace,
)
from mlfabric.engines.plan import Fault
from mlfabric.policies.base import PolicyContext, Replication
from mlfabric.topology import Topology

CHUNK_S = 0.01
MIN_CHUNK_BYTES, MAX_CHUNK_BYTES, MAX_VIRTUAL_CHUNK_BYTES = 8_192, 65_536, 1_000_000
"""A chunk lasts about 10 ms at line rate: short enough to time and to forward, long enough not to
cost a core at 25 Mbit/s; 64 KB segments did best at 100 Mbit/s. On the virtual clock it is what a
forwarding host lags behind, at 10 Gbit/s no more than 1 MB [ours]."""

TRACE_MARGIN_S = 60.0
"""How far the straggler trace reaches past the time limit."""

_FACTORS_AT_ONCE = 256

_VICTIMS = {
    "server_kill": "server",
    "replica_kill": REPLICA,
    "scheduler_kill": "scheduler",
    "aggregator_kill": None,
}


def chunk_bytes(config: RunConfig) -> int:
    """Largest message that the transport sends, on the wire."""
    if config.engine.chunk_bytes is not None:
        return config.engine.chunk_bytes
    wanted = int(config.cluster.bandwidth_bytes_per_s * CHUNK_S)
    most = MAX_VIRTUAL_CHUNK_BYTES if config.virtual else MAX_CHUNK_BYTES
    return min(max(wanted, MIN_CHUNK_BYTES), most) // 4096 * 4096


def rate_events(config: RunConfig) -> list[RateEvent]:
    """The network trace of this run, with a link that is down for a while where that is asked."""
    events = straggler_events(config)
    if not isinstance(config.fault, PartitionConfig):
        return events
    down_s, host = config.fault.at_s, config.fault.host
    up_s = down_s + config.fault.duration_s
    own = [event for event in events if event.host == host]
    factor = next((event.factor for event in reversed(own) if event.time_s <= up_s), 1.0)
    kept = [e for e in events if e.host != host or not down_s <= e.time_s <= up_s]
    cut = [RateEvent(down_s, host, NO_LINK), RateEvent(up_s, host, factor)]
    return sorted([*kept, *cut], key=lambda event: event.time_s)


def straggler_events(config: RunConfig) -> list[RateEvent]:
    """The network trace of this run: the same for every policy under one seed."""
    if config.network.trace_file is not None:
        return read_trace(Path(config.network.trace_file))
    stragglers = NetworkStragglers(
        config.network.probability, config.network.factor, config.network.period_s
    )
    cluster = config.cluster
    slowed = cluster.worker_hosts
    if config.network.include_server:
        slowed = tuple(dict.fromkeys((*slowed, *cluster.server_hosts)))
    horizon_s = config.engine.max_seconds + TRACE_MARGIN_S
    return network_events(stragglers, slowed, config.seed, horizon_s)


def computation_s(config: RunConfig) -> Callable[[int, int], float]:
    """Emulated seconds of a worker's iteration."""
    stragglers = ComputeStragglers(config.compute.probability, config.compute.max_factor)
    nominal_s, seed = config.cluster.compute_s, config.seed

    @functools.cache
    def drawn(worker: int, block: int) -> list[float]:
        first = block * _FACTORS_AT_ONCE
        iterations = range(first, first + _FACTORS_AT_ONCE)
        factors: list[float] = compute_factors(stragglers, seed, worker, iterations).tolist()
        return factors

    def seconds(worker: int, iteration: int) -> float:
        block, place = divmod(iteration, _FACTORS_AT_ONCE)
        return nominal_s * drawn(worker, block)[place]

    return seconds


def policy_context(
    config: RunConfig,
    model_bytes: int,
    topology: Topology,
    line_bytes_per_s: Mapping[str, float],
    byte_scale: float = 1.0,
) -> PolicyContext:
    """What the policy is told: `model_bytes` of a dense model on the wire, each host's line rate.

    Where there are racks, they have line rates, too.
    """
    return PolicyContext(
        server=config.cluster.server_hosts[0],
        workers=config.cluster.worker_hosts,
        line_bytes_per_s=line_bytes_per_s,
        model_bytes=model_bytes,
        chunk_bytes=chunk_bytes(config),
        straggler_period_s=config.network.period_s,
        seed=config.seed,
        options=_options(config),
        topology=topology,
        byte_scale=byte_scale,
        replication=_replication(config),
    )


def _replication(config: RunConfig) -> Replication | None:
    match config.replication:
        case ChainReplication():
            return Replication(REPLICA, "chain")
        case BoundedReplication(divergence_bound=bound, bound_rounds=rounds):
            return Replication(REPLICA, "bounded", bound, rounds)
    return None


def _options(config: RunConfig) -> dict[str, Any]:
    """The policy's own settings, the delay bound worked out."""
    options = config.policy.options()
    if "delay_bound" in options:
        options["delay_bound"] = config.delay_bound
    return options


def common_plan(config: RunConfig, conserved: bool) -> dict[str, Any]:
    """What every engine's plan holds (`RunPlan`), less the policy's context."""
    return {
        "hosts": config.hosts,
        "servers": config.cluster.server_hosts,
        "policy": config.policy.name,
        "conserved": conserved,
        "step_scale": 1.0 if conserved else config.step_scale,
        "nominal_s": config.cluster.compute_s,
        "computation_s": computation_s(config),
        "max_seconds": config.engine.max_seconds,
        "snapshot_interval_s": config.engine.snapshot_interval_s,
        "faults": faults(config),
        "fault_tolerant": config.fault_tolerant,
    }


def faults(config: RunConfig) -> tuple[Fault, ...]:
    """What is done to which host."""
    match config.fault:
        case NoFault():
            return ()
        case PartitionConfig(at_s=at_s, host=host, duration_s=duration_s):
            return (Fault("partition", at_s, host, duration_s),)
        case WorkerKillConfig(at_s=at_s, host=host):
            return (Fault("kill", at_s, host),)
        case KillConfig(name=name, at_s=at_s):
            return (Fault("kill", at_s, _VICTIMS[name]),)
