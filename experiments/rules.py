"""Settings that are sound one by one but not together: one rule a function, None where it holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.allowed import shown
from experiments.build import build_workload
from experiments.fault_rules import FAULT_RULES
from experiments.sections import SLURM, MpiEngineConfig
from mlfabric import policies
from mlfabric.emulation.stragglers import read_trace
from mlfabric.errors import SettingError

if TYPE_CHECKING:
    from experiments.schema import RunConfig

MAX_LAPTOP_BATCH = 8

MAX_RANKS = 202
"""Scheduler, servers and workers that are ranks of their own, at most [ours]."""


def _aggregators_are_hosts(config: RunConfig) -> str | None:
    asked, cluster = getattr(config.policy, "aggregators", None), config.cluster
    most = cluster.workers - cluster.colocated
    if asked is None or asked <= most:
        return None
    where = f"{most} with cluster.workers={cluster.workers}"
    if cluster.colocated:
        return (
            f"policy.aggregators={asked}: must be at most {where} and cluster.colocated=true,"
            " as worker hosts aggregate, a server's own not for it"
        )
    return f"policy.aggregators={asked}: must be at most {where}, as only worker hosts aggregate"


def _sums_need_two(config: RunConfig) -> str | None:
    if not policies.is_collective(config.policy.name) or config.cluster.workers >= 2:
        return None
    return f"cluster.workers=1: must be at least 2 with policy={config.policy.name}"


def _servers_are_wanted(config: RunConfig) -> str | None:
    if not policies.is_collective(config.policy.name):
        return None
    for key, plain in (("servers", 1), ("colocated", False)):
        asked = getattr(config.cluster, key)
        if asked != plain:
            return (
                f"cluster.{key}={shown(asked)}: must be {shown(plain)} with"
                f" policy={config.policy.name}, which has no server"
            )
    return None


def _servers_have_hosts(config: RunConfig) -> str | None:
    cluster = config.cluster
    if not cluster.colocated or cluster.servers <= cluster.workers:
        return None
    return (
        f"cluster.servers={cluster.servers}: must be at most cluster.workers={cluster.workers}"
        " with cluster.colocated=true"
    )


def _some_are_waited_for(config: RunConfig) -> str | None:
    backups = getattr(config.policy, "backups", 0)
    if backups < config.cluster.workers:
        return None
    most = config.cluster.workers - 1
    return f"policy.backups={backups}: must be at most {most}, one less than cluster.workers"


def _counts_are_applied_whole(config: RunConfig) -> str | None:
    """A scaled or remembered count would be no count."""
    if not build_workload(config.workload, config.seed).conserved:
        return None
    for key, plain in (("step_rule", "constant"), ("momentum", 0.0)):
        asked = getattr(config.policy, key, plain)
        if asked != plain:
            return (
                f"policy.{key}={shown(asked)}: must be {plain} with"
                f" workload={config.workload.name}, whose updates are counts"
            )
    return None


def _workload_can_be_had(config: RunConfig) -> str | None:
    if config.workload.timing_only:
        return None
    return build_workload(config.workload, config.seed).problem()


def _batches_are_small_on_two_cores(config: RunConfig) -> str | None:
    """So that a computation's nominal time is longer than its real one [ours]."""
    asked = getattr(config.workload, "batch_size", 0)
    plain = config.workload.framework == "none" or not isinstance(asked, int)
    if plain or asked <= MAX_LAPTOP_BATCH or not config.cluster.name.startswith("laptop"):
        return None
    return (
        f"workload.batch_size={asked}: must be at most {MAX_LAPTOP_BATCH} with"
        f" cluster={config.cluster.name}"
    )


def _library_is_shaped_below(config: RunConfig) -> str | None:
    if config.emulation != "userspace" or policies.place(config.policy.name) != "library":
        return None
    return (
        f"policy={config.policy.name}: must be another with engine.emulation=userspace, which"
        " cannot shape what the MPI library sends on its own"
    )


def _library_is_real(config: RunConfig) -> str | None:
    if not config.virtual or policies.place(config.policy.name) != "library":
        return None
    return f"policy={config.policy.name}: must be another with engine=virtual, which runs no MPI"


def _hostfile_exists(config: RunConfig) -> str | None:
    hostfile = config.cluster.hostfile
    if config.cluster.name == SLURM:
        if hostfile is None:
            return None
        return f"cluster.hostfile={hostfile}: must be null with cluster={SLURM}, which writes one"
    if hostfile is None:
        if config.cluster.name != "hostfile":
            return None
        return (
            "cluster.hostfile=null: must be the path of an Open MPI hostfile with cluster=hostfile"
        )
    if Path(hostfile).is_file():
        return None
    return f"cluster.hostfile={hostfile}: must be the path of an existing Open MPI hostfile"


def _hostfile_is_open_mpi_s(config: RunConfig) -> str | None:
    asked = config.engine.mpi if isinstance(config.engine, MpiEngineConfig) else None
    if not config.cluster.elsewhere or asked != "mpich":
        return None
    return (
        "engine.mpi=mpich: must be openmpi or system with a cluster.hostfile, which is Open MPI's,"
        f" and with cluster={SLURM}"
    )


def _hostfile_is_not_emulated(config: RunConfig) -> str | None:
    asks = isinstance(config.engine, MpiEngineConfig) and config.engine.emulation == "netns"
    if not config.cluster.elsewhere or not asks:
        return None
    return (
        "engine.emulation=netns: must be userspace or none (auto) with a cluster.hostfile"
        f" or cluster={SLURM}"
    )


def _stragglers_need_emulation(config: RunConfig) -> str | None:
    if config.rates_are_ours or config.network.probability == 0 or config.network.factor == 1:
        return None
    return (
        f"network.probability={config.network.probability:g}: must be 0 (network=none)"
        " where no link is shaped (engine.emulation=none or a hostfile)"
    )


def _oracle_needs_emulation(config: RunConfig) -> str | None:
    if config.rates_are_ours or getattr(config.policy, "bandwidth", None) != "oracle":
        return None
    return (
        "policy.bandwidth=oracle: must be measured where no link is shaped"
        " (engine.emulation=none or a hostfile)"
    )


def _stopping_needs_a_target(config: RunConfig) -> str | None:
    if not config.engine.stop_at_target or config.target is not None:
        return None
    if config.workload.timing_only:
        return "engine.stop_at_target=true: must be false with workload.timing_only=true"
    return (
        f"engine.stop_at_target=true: must be false, as {config.workload.name} has no target on"
        f" this cluster; workload.targets.{config.cluster.name} sets one"
    )


def _trace_can_be_played(config: RunConfig) -> str | None:
    path = config.network.trace_file
    if path is None:
        return None
    if not config.rates_are_ours:
        return f"network.trace_file={path}: must be null where no link is shaped"
    try:
        hosts = {event.host for event in read_trace(Path(path))}
    except OSError as error:
        return f"network.trace_file={path}: must be a file that can be read ({error.strerror})"
    except UnicodeDecodeError:
        return f"network.trace_file={path}: must be a text file in UTF-8"
    except SettingError as error:
        return f"network.trace_file: {error}"
    cluster = config.cluster
    if strangers := sorted(hosts - {*cluster.server_hosts, *cluster.worker_hosts}):
        own = () if cluster.colocated else cluster.server_hosts
        served = f"server1 to server{len(own)}" if len(own) > 1 else "server"
        allowed = (
            f"{served} or one of w1 to w{cluster.workers}"
            if own
            else f"one of w1 to w{cluster.workers}"
        )
        return f"network.trace_file={path}: host {strangers[0]} must be {allowed}"
    return None


def _watchdog_outlasts_computation(config: RunConfig) -> str | None:
    longest_s = config.cluster.compute_s * config.compute.max_factor
    if not isinstance(config.engine, MpiEngineConfig) or config.engine.watchdog_s > longest_s:
        return None
    return (
        f"engine.watchdog_s={config.engine.watchdog_s:g}: must be above {longest_s:g}, the longest"
        " computation (cluster.compute_s x compute.max_factor)"
    )


def _tracking_is_a_database(config: RunConfig) -> str | None:
    uri = config.tracking.uri
    if uri is None:
        return None
    is_folder = uri.startswith("sqlite:///") and Path(uri.removeprefix("sqlite:///")).is_dir()
    if uri.startswith(("sqlite:////", "http://", "https://")) and not is_folder:
        return None
    return (
        f"tracking.uri={uri}: must be sqlite:/// and an absolute path, or the address of an"
        " MLflow server; tracking=none records in the run's folder alone"
    )


def _ranks_are_few(config: RunConfig) -> str | None:
    cluster = config.cluster
    if config.virtual or len(config.hosts) <= MAX_RANKS:
        return None
    return (
        f"cluster.workers={cluster.workers}, cluster.servers={cluster.servers}: these are"
        f" {len(config.hosts)} ranks with the scheduler's; must be at most {MAX_RANKS} with"
        " engine=mpi (engine=virtual takes more)"
    )


def _paper_scale_is_virtual(config: RunConfig) -> str | None:
    if config.virtual or config.cluster.name != "paper":
        return None
    return "cluster=paper: must be another cluster with engine=mpi; engine=virtual carries it out"


def _network_of_ranks_is_plain(config: RunConfig) -> str | None:
    """What only the virtual clock's network has must not be asked of a real one."""
    if config.virtual:
        return None
    cluster = config.cluster
    for key, asked, plain in (
        ("update_bytes", cluster.update_bytes, None),
        ("transport", cluster.transport, "tcp"),
        ("hosts_per_rack", cluster.hosts_per_rack, None),
        ("uplink_bytes_per_s", cluster.uplink_bytes_per_s, None),
    ):
        if asked != plain:
            return f"cluster.{key}={shown(asked)}: must be {shown(plain)} with engine=mpi"
    return None


def _virtual_hosts_are_no_machines(config: RunConfig) -> str | None:
    if not config.virtual:
        return None
    if config.cluster.hostfile is not None:
        return f"cluster.hostfile={config.cluster.hostfile}: must be null with engine=virtual"
    if config.cluster.name in ("hostfile", SLURM):
        return f"cluster={config.cluster.name}: must be another cluster with engine=virtual"
    return None


def _uplinks_need_racks(config: RunConfig) -> str | None:
    cluster = config.cluster
    if cluster.uplink_bytes_per_s is None or cluster.hosts_per_rack is not None:
        return None
    return (
        f"cluster.uplink_bytes_per_s={cluster.uplink_bytes_per_s:g}: must be null"
        " without cluster.hosts_per_rack"
    )


def _timing_is_virtual(config: RunConfig) -> str | None:
    if not config.workload.timing_only:
        return None
    if not config.virtual:
        return "workload.timing_only=true: must be false with engine=mpi; engine=virtual takes it"
    if config.cluster.update_bytes is None:
        return "cluster.update_bytes=null: must be a number with workload.timing_only=true"
    name = config.policy.name
    if policies.is_collective(name) and not hasattr(policies.module(name), "rounds"):
        return f"workload.timing_only=true: must be false with policy={name}, which cuts updates up"
    return None


def _step_scale_is_given(config: RunConfig) -> str | None:
    if config.cluster.name in config.policy.step_scale:
        return None
    return f"policy.step_scale.{config.cluster.name}: missing; must be a number, above 0"


RULES: tuple[Callable[[RunConfig], str | None], ...] = (
    _aggregators_are_hosts,
    _sums_need_two,
    _servers_are_wanted,
    _servers_have_hosts,
    _some_are_waited_for,
    _counts_are_applied_whole,
    _workload_can_be_had,
    _batches_are_small_on_two_cores,
    _library_is_real,
    _library_is_shaped_below,
    _virtual_hosts_are_no_machines,
    _hostfile_exists,
    _hostfile_is_open_mpi_s,
    _hostfile_is_not_emulated,
    _stragglers_need_emulation,
    _oracle_needs_emulation,
    _stopping_needs_a_target,
    _trace_can_be_played,
    _watchdog_outlasts_computation,
    _tracking_is_a_database,
    _ranks_are_few,
    _paper_scale_is_virtual,
    _network_of_ranks_is_plain,
    _uplinks_need_racks,
    _timing_is_virtual,
    _step_scale_is_given,
    *FAULT_RULES,
)
