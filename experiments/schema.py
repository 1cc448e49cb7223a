"""The typed settings of one run, and the one edge at which plain settings become them.

Every class is a frozen dataclass that refuses unknown keys, wrong types and values out of range.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt
from pydantic import AfterValidator, ConfigDict, ValidationError
from pydantic.dataclasses import dataclass

from experiments.allowed import complaint
from experiments.rules import RULES
from mlfabric.errors import SettingError

if TYPE_CHECKING:
    from omegaconf import DictConfig

_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

Positive = Annotated[float, Gt(0)]
Probability = Annotated[float, Ge(0), Le(1)]
Count = Annotated[int, Ge(1)]


def _six_n_plus_two(depth: int) -> int:
    if depth < 8 or depth % 6 != 2:
        raise ValueError("6n + 2 with n at least 1: 8, 14, 20, 26, 32, …")
    return depth


@dataclass(frozen=True, config=_STRICT)
class ClusterConfig:
    """Workers, their links and their nominal computation; ranks are workers + 2."""

    name: str
    workers: Annotated[int, Ge(1), Le(200)]
    bandwidth_bytes_per_s: Positive
    compute_s: Positive
    straggler_period_s: Positive
    congestion_control: Literal["cubic", "bbr", "reno"]
    hostfile: Annotated[str, AfterValidator(os.path.abspath)] | None


@dataclass(frozen=True, config=_STRICT)
class NetworkConfig:
    """Each period each link keeps `factor` of its rate with `probability`; or a recorded trace."""

    name: str
    probability: Probability
    factor: Annotated[float, Gt(0), Le(1)]
    period_s: Annotated[float, Ge(0.01)]
    include_server: bool
    trace_file: Annotated[str, AfterValidator(os.path.abspath)] | None


@dataclass(frozen=True, config=_STRICT)
class ComputeConfig:
    """Compute stragglers: with `probability` an iteration takes U[1, max_factor] times as long."""

    name: str
    probability: Probability
    max_factor: Annotated[float, Ge(1)]


@dataclass(frozen=True, config=_STRICT)
class PldaConfig:
    """LDA by collapsed Gibbs sampling; a push is one minibatch of documents."""

    name: str
    kind: Literal["plda"]
    framework: Literal["none"]
    targets: dict[str, float | None]
    topics: Annotated[int, Ge(2)]
    alpha: Positive
    beta: Positive
    minibatch_tokens: Count
    heldout_fraction: Annotated[float, Gt(0), Le(0.5)]
    fold_in_sweeps: Count
    min_word_count: Count


@dataclass(frozen=True, config=_STRICT)
class ResnetConfig:
    """A CIFAR-style residual network; a push is one SGD step with worker-local momentum."""

    name: str
    kind: Literal["resnet"]
    framework: Literal["torch"]
    targets: dict[str, float | None]
    depth: Annotated[int, AfterValidator(_six_n_plus_two)]
    batch_size: Annotated[int, Ge(1), Le(8)]
    learning_rate: Positive
    momentum: Annotated[float, Ge(0), Lt(1)]
    weight_decay: Annotated[float, Ge(0)]


@dataclass(frozen=True, config=_STRICT)
class AsyncPsConfig:
    """Asynchronous parameter server, the network shared by TCP."""

    name: Literal["async_ps"]
    step_scale: Positive


@dataclass(frozen=True, config=_STRICT)
class RingAllreduceConfig:
    """Synchronous ring all-reduce."""

    name: Literal["ring_allreduce"]
    step_scale: Positive


@dataclass(frozen=True, config=_STRICT)
class MlfabricAConfig:
    """Asynchronous MLfabric. Nulls stand for 2 (workers - 1) and for every worker host."""

    name: Literal["mlfabric_a"]
    step_scale: Positive
    delay_bound: Annotated[int, Ge(0)] | None
    ordering: Literal["shortest", "delay_aware"]
    aggregation: Literal["none", "paper"]
    aggregators: Annotated[int, Ge(0)] | None
    aggregator_choice: Literal["in_order", "random", "best_fit"]
    bandwidth: Literal["measured", "oracle"]


@dataclass(frozen=True, config=_STRICT)
class EngineConfig:
    """What carries the run out, for how long, and how it is watched."""

    name: Literal["mpi"]
    emulation: Literal["auto", "netns", "none"]
    max_seconds: Annotated[float, Gt(0), Le(1e6)]
    stop_at_target: bool
    snapshot_interval_s: Annotated[float, Ge(0.01)]
    watchdog_s: Positive
    chunk_bytes: Annotated[int, Ge(1024), Le(65536)] | None


@dataclass(frozen=True, config=_STRICT)
class TrackingConfig:
    """The MLflow store and the MLflow experiment that runs are filed under."""

    uri: str
    experiment: str


WorkloadConfig = PldaConfig | ResnetConfig
PolicyConfig = AsyncPsConfig | RingAllreduceConfig | MlfabricAConfig


@dataclass(frozen=True, config=_STRICT)
class RunConfig:
    """Everything one run depends on."""

    seed: Annotated[int, Ge(0)]
    experiment: str
    cluster: ClusterConfig
    network: NetworkConfig
    compute: ComputeConfig
    workload: WorkloadConfig
    policy: PolicyConfig
    engine: EngineConfig
    tracking: TrackingConfig

    @property
    def target(self) -> float | None:
        """Level of the workload's metric at which time-to-target stops on this cluster."""
        return self.workload.targets.get(self.cluster.name)

    @property
    def emulated(self) -> bool:
        """Whether links are shaped: always on this machine unless that is turned off."""
        return self.engine.emulation != "none" and self.cluster.hostfile is None

    @property
    def delay_bound(self) -> int | None:
        """Largest delay an applied update may have, in versions; None where nothing bounds it."""
        if not isinstance(self.policy, MlfabricAConfig):
            return None
        if self.policy.delay_bound is None:
            return 2 * (self.cluster.workers - 1)
        return self.policy.delay_bound


# Sections of which a tag (its key, then class by value) picks the class.
_TAGGED: dict[str, tuple[str, dict[str, type[Any]]]] = {
    "workload": ("kind", {"plda": PldaConfig, "resnet": ResnetConfig}),
    "policy": (
        "name",
        {
            "async_ps": AsyncPsConfig,
            "ring_allreduce": RingAllreduceConfig,
            "mlfabric_a": MlfabricAConfig,
        },
    ),
}
_PLAIN: dict[str, type[Any]] = {
    "cluster": ClusterConfig,
    "network": NetworkConfig,
    "compute": ComputeConfig,
    "engine": EngineConfig,
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
    tag, classes = _TAGGED[name]
    value = values.get(tag)
    if value not in classes:
        raise SettingError(f"{name}.{tag}={value}: must be one of {', '.join(classes)}")
    return classes[value]


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
