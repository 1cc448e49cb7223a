"""What a run is called wherever it is named to people."""

from __future__ import annotations

from experiments.schema import RunConfig


def run_name(config: RunConfig) -> str:
    """What tells a run from others at a glance: where, what, by which policy, under what."""
    setting = f"{config.network.name}/{config.compute.name}"
    names = (config.workload.name, variant(config), config.cluster.name, setting)
    return f"{' '.join(names)} seed {config.seed}"


def variant(config: RunConfig) -> str:
    """The policy, and what of the settings makes another one of it."""
    name, aggregation = config.policy.name, getattr(config.policy, "aggregation", "paper")
    name = name if aggregation == "paper" else f"{name} {aggregation}"
    cluster = config.cluster
    servers = "" if cluster.servers == 1 else f" x {cluster.servers} servers"
    return f"{name}{servers}{' beside workers' if cluster.colocated else ''}"
