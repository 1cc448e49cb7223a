"""The sections of a run's settings but workload and policy, one frozen dataclass each.

They refuse unknown keys, wrong types and values out of range.
"""

from __future__ import annotations

import os
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le
from pydantic import AfterValidator
from pydantic.dataclasses import dataclass

from experiments.strict import STRICT

REPLICA = "replica"
"""The host that keeps the second copy of the model, where one does."""

SLURM = "slurm"
"""The cluster whose hosts are those of the Slurm allocation that a run is started in."""

Positive = Annotated[float, Gt(0)]
Probability = Annotated[float, Ge(0), Le(1)]
NotNegative = Annotated[float, Ge(0)]
Count = Annotated[int, Ge(1)]


@dataclass(frozen=True, config=STRICT)
class ClusterConfig:
    """Workers, servers, their links and the nominal computation.

    `servers` keep a share of the parameters each, on hosts of their own or, `colocated`, on those
    of the first workers; the scheduler has a host of its own.
    What follows `hostfile` describes the network of the virtual clock alone.
    """

    name: str
    workers: Annotated[int, Ge(1), Le(20_000)]
    servers: Annotated[int, Ge(1), Le(1_000)]
    colocated: bool
    bandwidth_bytes_per_s: Positive
    compute_s: Positive
    straggler_period_s: Positive
    congestion_control: Literal["cubic", "bbr", "reno"]
    hostfile: Annotated[str, AfterValidator(os.path.abspath)] | None
    update_bytes: Positive | None
    transport: Literal["tcp", "reserved"]
    goodput: Annotated[float, Gt(0), Le(1)]
    message_s: NotNegative
    hop_s: NotNegative
    startup_s: NotNegative
    share_spread: Annotated[float, Ge(0), Le(2)]
    hosts_per_rack: Count | None
    uplink_bytes_per_s: Positive | None

    @property
    def elsewhere(self) -> bool:
        """Whether ranks run on hosts of their own: a hostfile's, or those of an allocation."""
        return self.hostfile is not None or self.name == SLURM

    @property
    def worker_hosts(self) -> tuple[str, ...]:
        """Names of the workers' hosts."""
        return tuple(f"w{number}" for number in range(1, self.workers + 1))

    @property
    def server_hosts(self) -> tuple[str, ...]:
        """Names of the servers' hosts."""
        if self.colocated:
            return self.worker_hosts[: self.servers]
        if self.servers == 1:
            return ("server",)
        return tuple(f"server{number}" for number in range(1, self.servers + 1))

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of all hosts, in the order of ranks."""
        return tuple(dict.fromkeys(("scheduler", *self.server_hosts, *self.worker_hosts)))


@dataclass(frozen=True, config=STRICT)
class NetworkConfig:
    """Each period each link keeps `factor` of its rate with `probability`; or a recorded trace."""

    name: str
    probability: Probability
    factor: Annotated[float, Gt(0), Le(1)]
    period_s: Annotated[float, Ge(0.01)]
    include_server: bool
    trace_file: Annotated[str, AfterValidator(os.path.abspath)] | None


@dataclass(frozen=True, config=STRICT)
class ComputeConfig:
    """Compute stragglers: with `probability` an iteration takes U[1, max_factor] times as long."""

    name: str
    probability: Probability
    max_factor: Annotated[float, Ge(1)]


@dataclass(frozen=True, config=STRICT)
class NoReplication:
    """The model is on its server alone."""

    name: Literal["none"]


@dataclass(frozen=True, config=STRICT)
class ChainReplication:
    """The server forwards to its replica what it is to apply."""

    name: Literal["chain"]


@dataclass(frozen=True, config=STRICT)
class BoundedReplication:
    """A replica follows within a bound on the two models' distance; see `Replication`."""

    name: Literal["bounded"]
    divergence_bound: Positive | None
    bound_rounds: Positive


@dataclass(frozen=True, config=STRICT)
class NoFault:
    """Nothing is done to any host."""

    name: Literal["none"]


@dataclass(frozen=True, config=STRICT)
class KillConfig:
    """A host is killed at a time: the one that plays a part."""

    name: Literal["server_kill", "aggregator_kill", "replica_kill", "scheduler_kill"]
    at_s: Positive


@dataclass(frozen=True, config=STRICT)
class WorkerKillConfig:
    """A worker's host is killed at a time."""

    name: Literal["worker_kill"]
    at_s: Positive
    host: str


@dataclass(frozen=True, config=STRICT)
class PartitionConfig:
    """A host's link carries nothing for a while."""

    name: Literal["partition"]
    at_s: Positive
    host: str
    duration_s: Positive


@dataclass(frozen=True, config=STRICT)
class MpiEngineConfig:
    """Real MPI ranks: where they run, for how long, and how they are watched."""

    name: Literal["mpi"]
    mpi: Literal["openmpi", "mpich", "system"]
    emulation: Literal["auto", "netns", "userspace", "none"]
    max_seconds: Annotated[float, Gt(0), Le(1e6)]
    stop_at_target: bool
    snapshot_interval_s: Annotated[float, Ge(0.01)]
    watchdog_s: Positive
    chunk_bytes: Annotated[int, Ge(1024), Le(65_536)] | None
    fault_tolerance: bool
    lost_after_s: Positive
    checkpoint_interval_s: Positive


@dataclass(frozen=True, config=STRICT)
class VirtualEngineConfig:
    """A virtual clock: how long a run is, how closely it is watched, and how its ring is modeled.

    A run ends after `max_seconds` of its own clock, or after `max_updates` applied updates.
    """

    name: Literal["virtual"]
    max_seconds: Annotated[float, Gt(0), Le(1e6)]
    max_updates: Count | None
    stop_at_target: bool
    snapshot_interval_s: Annotated[float, Ge(0.01)]
    collective: Literal["flow", "messages"]
    chunk_bytes: Annotated[int, Ge(1024), Le(16_777_216)] | None
    lost_after_s: Positive
    checkpoint_interval_s: Positive


@dataclass(frozen=True, config=STRICT)
class TrackingConfig:
    """The MLflow store and the MLflow experiment that runs are filed under; null: no store."""

    uri: str | None
    experiment: str

    @property
    def store(self) -> str:
        """The address of the store, where there is one."""
        assert self.uri is not None
        return self.uri


ReplicationConfig = NoReplication | ChainReplication | BoundedReplication
FaultConfig = NoFault | KillConfig | WorkerKillConfig | PartitionConfig
EngineConfig = MpiEngineConfig | VirtualEngineConfig
