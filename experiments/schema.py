"""The typed settings of one run, and the one edge at which plain settings become them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge
from pydantic import ValidationError
from pydantic.dataclasses import dataclass

from experiments.allowed import complaint
from experiments.mpi_library import Emulation
from experiments.policy_class import PolicyConfig, policy_class
from experiments.rules import RULES
from experiments.sections import (
    REPLICA,
    BoundedReplication,
    ChainReplication,
    ClusterConfig,
    ComputeConfig,
    EngineConfig,
    FaultConfig,
    KillConfig,
    MpiEngineConfig,
    NetworkConfig,
    NoFault,
    NoReplication,
    PartitionConfig,
    ReplicationConfig,
    TrackingConfig,
    VirtualEngineConfig,
    WorkerKillConfig,
)
from experiments.strict import STRICT
from experiments.sweep_settings import SWEEP
from experiments.workload_class import WorkloadConfig, workload_class
from mlfabric import policies
from mlfabric.errors import SettingError
from workloads import kinds
from workloads.base import WorkloadError

if TYPE_CHECKING:
    from omegaconf import DictConfig

VARIANTS = "cells"
"""The key of an experiment file that lists the overrides of its variants: no setting of a run."""


@dataclass(frozen=True, config=STRICT)
class RunConfig:
    """Everything one run depends on."""

    seed: Annotated[int, Ge(0)]
    experiment: str
    resume: Literal["never", "auto"]
    cluster: ClusterConfig
    network: NetworkConfig
    compute: ComputeConfig
    workload: WorkloadConfig
    policy: PolicyConfig
    replication: ReplicationConfig
    fault: FaultConfig
    engine: EngineConfig
    tracking: TrackingConfig

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of all hosts, in the order of ranks: the cluster's, and the replica's."""
        replicated = not isinstance(self.replication, NoReplication)
        return (*self.cluster.hosts, REPLICA) if replicated else self.cluster.hosts

    @property
    def fault_tolerant(self) -> bool:
        """Whether the run is to go on without a host that is lost."""
        asked = isinstance(self.engine, MpiEngineConfig) and self.engine.fault_tolerance
        plain = isinstance(self.replication, NoReplication) and isinstance(self.fault, NoFault)
        return asked or not plain

    @property
    def virtual(self) -> bool:
        """Whether the run is carried out on a virtual clock."""
        return isinstance(self.engine, VirtualEngineConfig)

    @property
    def target(self) -> float | None:
        """Level of the workload's metric at which time-to-target stops on this cluster."""
        if self.workload.timing_only:
            return None
        return self.workload.targets.get(self.cluster.name)

    @property
    def step_scale(self) -> float:
        """What every gradient step is multiplied by on this cluster."""
        return self.policy.step_scale[self.cluster.name]

    @property
    def emulation(self) -> Emulation | None:
        """How links are to be shaped; None on the virtual clock, which has its own.

        "auto" is "netns" on this machine (which may not allow it), "none" on others.
        """
        if not isinstance(self.engine, MpiEngineConfig):
            return None
        if self.engine.emulation == "auto":
            return "none" if self.cluster.elsewhere else "netns"
        return self.engine.emulation

    @property
    def rates_are_ours(self) -> bool:
        """Whether the rates of links are told by the settings: shaped, or of the virtual clock."""
        return self.emulation != "none"

    @property
    def delay_bound(self) -> int | None:
        """Largest delay an applied update may have, in versions; None where nothing bounds it."""
        asked = getattr(self.policy, "delay_bound", "none")
        if asked == "none":
            return None
        return asked if isinstance(asked, int) else 2 * (self.cluster.workers - 1)


_ENGINES: dict[str, type[Any]] = {"mpi": MpiEngineConfig, "virtual": VirtualEngineConfig}
_REPLICATIONS: dict[str, type[Any]] = {
    "none": NoReplication,
    "chain": ChainReplication,
    "bounded": BoundedReplication,
}
_FAULTS: dict[str, type[Any]] = {
    "none": NoFault,
    "worker_kill": WorkerKillConfig,
    "partition": PartitionConfig,
    **dict.fromkeys(
        ("server_kill", "aggregator_kill", "replica_kill", "scheduler_kill"), KillConfig
    ),
}

# Sections of which a tag picks the class: its key, the values there are, and class by value.
_TAGGED: dict[str, tuple[str, Sequence[str], Callable[[str], type[Any]]]] = {
    "policy": ("name", policies.names(), policy_class),
    "workload": ("kind", kinds.names(), workload_class),
    "replication": ("name", tuple(_REPLICATIONS), _REPLICATIONS.__getitem__),
    "fault": ("name", tuple(_FAULTS), _FAULTS.__getitem__),
    "engine": ("name", tuple(_ENGINES), _ENGINES.__getitem__),
}
_PLAIN: dict[str, type[Any]] = {
    "cluster": ClusterConfig,
    "network": NetworkConfig,
    "compute": ComputeConfig,
    "tracking": TrackingConfig,
}
SECTIONS = (*_PLAIN, *_TAGGED)


def from_omegaconf(cfg: DictConfig) -> RunConfig:
    """The typed settings of a composed configuration; SettingError names the first bad one."""
    # Imported here, as every rank imports this file and none of them composes anything.
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        plain: Any = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise SettingError(f"{error.full_key}: {str(error).splitlines()[0]}") from None
    for aside in (VARIANTS, SWEEP):
        plain.pop(aside, None)
    return from_plain(plain)


def from_plain(plain: dict[str, Any]) -> RunConfig:
    """The typed settings of nested dicts, as `to_plain` writes them; raises SettingError."""
    sections = {name: _section(name, plain.get(name)) for name in SECTIONS}
    rest = {key: value for key, value in plain.items() if key not in sections}
    config: RunConfig = _built(RunConfig, "", {**rest, **sections})
    _check_together(config)
    return config


def to_plain(config: RunConfig) -> dict[str, Any]:
    """Nested dicts of plain values, fit for JSON."""
    return dataclasses.asdict(config)


def write_config(config: RunConfig, path: Path) -> None:
    """Write the settings as the run's config.json; FileExistsError where a run already has one."""
    with path.open("x", encoding="utf-8") as file:
        file.write(json.dumps(to_plain(config), indent=2) + "\n")


def read_config(path: Path) -> RunConfig:
    """The settings in a run's config.json."""
    return from_plain(json.loads(path.read_text(encoding="utf-8")))


def _section(name: str, values: Any) -> Any:
    if not isinstance(values, dict):
        raise SettingError(f"{name}={values}: must be a group of settings")
    return _built(_section_class(name, values), f"{name}.", values)


def _section_class(name: str, values: dict[str, Any]) -> type[Any]:
    if name in _PLAIN:
        return _PLAIN[name]
    tag, known, class_of = _TAGGED[name]
    value = values.get(tag)
    if not isinstance(value, str) or value not in known:
        raise SettingError(f"{name}.{tag}={value}: must be one of {', '.join(known)}")
    try:
        return class_of(value)
    except WorkloadError as error:
        raise SettingError(str(error)) from None


def _built(kind: type[Any], prefix: str, values: dict[str, Any]) -> Any:
    try:
        return kind(**values)
    except ValidationError as error:
        raise SettingError(complaint(kind, prefix, error.errors()[0])) from None


def _check_together(config: RunConfig) -> None:
    """Refuse settings that are each sound but contradict each other; raises SettingError."""
    for rule in RULES:
        if broken := rule(config):
            raise SettingError(broken)
