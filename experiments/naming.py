"""What a run is called wherever it is named to people."""

from __future__ import annotations

from experiments.schema import RunConfig
from experiments.sections import MlfabricAConfig


def run_name(config: RunConfig) -> str:
    """What tells a run from others at a glance: where, what, by which policy, under what."""
    setting = f"{config.network.name}/{config.compute.name}"
    names = (config.workload.name, variant(config), config.cluster.name, setting)
    return f"{' '.join(names)} seed {config.seed}"


def variant(config: RunConfig) -> str:
    """The policy, and what of its settings makes another one of it."""
    policy = config.policy
    if isinstance(policy, MlfabricAConfig) and policy.aggregation != "paper":
        return f"{policy.name} {policy.aggregation}"
    return policy.name
