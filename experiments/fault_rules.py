"""Rules of `rules.py` about replicas and faults: who can be lost, and who can go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from experiments.allowed import shown
from experiments.sections import MpiEngineConfig
from mlfabric import policies

if TYPE_CHECKING:
    from experiments.schema import RunConfig

LEAST_SILENCE_S = 3.0


def _replica_has_one_server(config: RunConfig) -> str | None:
    kind, cluster, policy = config.replication.name, config.cluster, config.policy.name
    if kind == "none":
        return None
    if policies.is_collective(policy):
        return f"replication={kind}: must be none with policy={policy}, which has no server"
    for key, plain in (("servers", 1), ("colocated", False)):
        asked = getattr(cluster, key)
        if asked != plain:
            return f"cluster.{key}={shown(asked)}: must be {shown(plain)} with replication={kind}"
    return None


def _bound_is_scheduled(config: RunConfig) -> str | None:
    if config.replication.name != "bounded":
        return None
    if policies.place(config.policy.name) != "scheduler":
        return (
            f"replication=bounded: must be none or chain with policy={config.policy.name}, which"
            " schedules no transfers"
        )
    if config.workload.timing_only:
        return (
            "replication=bounded: must be none or chain with workload.timing_only=true, where"
            " updates have no norms"
        )
    return None


def _fault_has_a_victim(config: RunConfig) -> str | None:
    fault, policy, cluster = config.fault, config.policy, config.cluster
    if fault.name == "none":
        return None
    place, by = policies.place(policy.name), f"with fault={fault.name}"
    for key, plain in (("servers", 1), ("colocated", False)):
        asked = getattr(cluster, key)
        if asked != plain:
            return f"cluster.{key}={shown(asked)}: must be {shown(plain)} {by}"
    if fault.name == "server_kill" and place == "server":
        scheduled = ", ".join(n for n in policies.names() if policies.place(n) == "scheduler")
        return f"policy={policy.name}: must be one of {scheduled} {by}: its logic is on the server"
    if fault.name in ("server_kill", "replica_kill") and config.replication.name == "none":
        return f"replication=none: must be chain or bounded {by}"
    if fault.name == "aggregator_kill" and not _sums_on_the_way(config):
        return f"policy.aggregation: must be paper or pipelined, by mlfabric_a, _s or _ssp, {by}"
    if fault.name in ("worker_kill", "aggregator_kill") and cluster.workers < 2:
        return f"cluster.workers={cluster.workers}: must be at least 2 {by}"
    host = getattr(fault, "host", None)
    hosts = cluster.worker_hosts if fault.name == "worker_kill" else config.hosts[1:]
    if host is not None and host not in hosts:
        return f"fault.host={host}: must be one of {', '.join(hosts)}"
    if fault.name == "partition" and not config.rates_are_ours:
        return "fault=partition: must be another where no link is shaped (engine.emulation=none)"
    return None


def _sums_on_the_way(config: RunConfig) -> bool:
    asked = getattr(config.policy, "aggregators", 0)
    return getattr(config.policy, "aggregation", "none") != "none" and asked != 0


def _lone_workers_are_needed(config: RunConfig) -> str | None:
    """A collective cannot go on without one of its workers."""
    if not config.fault_tolerant or not policies.is_collective(config.policy.name):
        return None
    asked = "engine.fault_tolerance=true"
    if config.fault.name != "none":
        asked = f"fault={config.fault.name}"
    plain = asked.partition("=")[0]
    return (
        f"{asked}: {plain} must be {'false' if 'tolerance' in plain else 'none'} with"
        f" policy={config.policy.name}, which needs every worker"
    )


def _silence_is_longer_than_heartbeats(config: RunConfig) -> str | None:
    engine = config.engine
    if not isinstance(engine, MpiEngineConfig) or engine.lost_after_s >= LEAST_SILENCE_S:
        return None
    return (
        f"engine.lost_after_s={engine.lost_after_s:g}: must be at least {LEAST_SILENCE_S:g} with"
        " engine=mpi, as ranks are heard once a second"
    )


def _fault_is_in_time(config: RunConfig) -> str | None:
    at_s, end_s = getattr(config.fault, "at_s", 0.0), config.engine.max_seconds
    if at_s < end_s:
        return None
    return f"fault.at_s={at_s:g}: must be below engine.max_seconds={end_s:g}"


def _survivors_have_ulfm(config: RunConfig) -> str | None:
    asked = config.engine.mpi if isinstance(config.engine, MpiEngineConfig) else None
    if asked != "mpich" or not config.fault_tolerant:
        return None
    return (
        "engine.mpi=mpich: must be openmpi with engine.fault_tolerance=true, a replication or a"
        " fault, as MPICH ends the job with a rank that dies"
    )


FAULT_RULES: tuple[Callable[[RunConfig], str | None], ...] = (
    _replica_has_one_server,
    _bound_is_scheduled,
    _lone_workers_are_needed,
    _fault_has_a_victim,
    _silence_is_longer_than_heartbeats,
    _fault_is_in_time,
    _survivors_have_ulfm,
)
