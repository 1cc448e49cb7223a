"""What a run is called wherever it is named to people."""

from __future__ import annotations

import dataclasses

from analysis.names import replication_name, variant_name
from experiments.schema import RunConfig


def run_name(config: RunConfig, *more: str) -> str:
    """What tells a run from others at a glance: where, what, by which policy, under what."""
    setting = f"{config.network.name}/{config.compute.name}"
    told = [f"({', '.join(more)})"] if more else []
    names = (config.workload.name, variant(config), config.cluster.name, setting, *told)
    return f"{' '.join(names)} seed {config.seed}"


def variant(config: RunConfig) -> str:
    """The policy, and what of the settings makes another one of it."""
    aggregation, cluster = getattr(config.policy, "aggregation", None), config.cluster
    name = config.policy.name
    replication = replication_name(dataclasses.asdict(config.replication))
    return variant_name(
        name, aggregation, cluster.servers, colocated=cluster.colocated, replication=replication
    )
