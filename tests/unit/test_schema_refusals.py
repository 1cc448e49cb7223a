"""Every bad setting is refused in one line that names key, value and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.overrides import validate
from mlfabric.errors import SettingError

REFUSALS = [
    # unknown keys, with the nearest known one
    ("cluster.workerz=3", "cluster.workerz: unknown key; did you mean cluster.workers?"),
    ("networ=ns1", "networ: unknown key; did you mean network?"),
    ("profile=smoke", "profile: unknown key; known: cluster, compute, engine,"),
    ("hydra.run.dirr=/tmp/x", "hydra.run.dirr: unknown key; did you mean hydra.run.dir?"),
    ("policy=async_ps policy.delay_bound=4", "policy.delay_bound: unknown key"),
    ("workload=resnet_mnist5k workload.topics=9", "workload.topics: unknown key"),
    ("workload.targets.laptopp=1", "did you mean workload.targets.laptop?"),
    # unknown choices
    ("network=ns9", "network=ns9: unknown choice; must be one of halved, none, ns1, ns2, ns3"),
    ("engine=warp", "engine=warp: unknown choice; must be one of mpi, virtual"),
    (
        "policy=null",
        "policy=null: unknown choice; must be one of async_bounded, async_ps, mlfabric_a",
    ),
    ("policy={a:1}", "unknown choice; must be one of async_bounded"),
    ("experiment=fig99", "experiment=fig99: unknown choice; must be one of adhoc"),
    ("policy.name=ring_allreduce", "policy.name: follows from the choice; set policy="),
    ("workload.kind=resnet", "workload.kind: follows from the choice; set workload="),
    # wrong types
    ("cluster.workers=abc", "cluster.workers=abc: must be an integer, at least 1, at most 20000"),
    ("cluster.workers=2.5", "cluster.workers=2.5: must be an integer"),
    ("cluster.workers=true", "cluster.workers=true: must be an integer"),
    ("cluster.workers='8'", "cluster.workers='8': must be an integer"),
    ("cluster.workers=null", "cluster.workers=null: must be an integer"),
    ("cluster.workers={a:1}", "cluster.workers={'a': 1}: must be an integer"),
    ("engine.stop_at_target=1", "engine.stop_at_target=1: must be true or false"),
    ("workload.targets.laptop=abc", "workload.targets.laptop=abc: must be a number or null"),
    ("workload.targets=3", "workload.targets=3: must be {key: a number or null}"),
    # out of range
    ("seed=-1", "seed=-1: must be an integer, at least 0"),
    ("cluster.workers=0", "cluster.workers=0: must be an integer, at least 1, at most 20000"),
    ("engine=virtual cluster.workers=20001", "cluster.workers=20001: must be"),
    ("cluster.goodput=0", "cluster.goodput=0: must be a number, above 0, at most 1"),
    ("cluster.hop_s=-1", "cluster.hop_s=-1: must be a number, at least 0"),
    ("engine=virtual engine.max_updates=0", "max_updates=0: must be an integer, at least 1 or"),
    ("engine=virtual engine.collective=tree", "must be one of flow, messages"),
    ("cluster.bandwidth_bytes_per_s=0", "bandwidth_bytes_per_s=0: must be a number, above 0"),
    ("cluster.bandwidth_bytes_per_s=-1", "bandwidth_bytes_per_s=-1: must be a number, above 0"),
    ("cluster.bandwidth_bytes_per_s=inf", "bandwidth_bytes_per_s=inf: must be a number, above"),
    ("cluster.compute_s=0", "cluster.compute_s=0: must be a number, above 0"),
    ("network.probability=1.5", "probability=1.5: must be a number, at least 0, at most 1"),
    ("network.probability=-0.1", "network.probability=-0.1: must be a number, at least 0"),
    ("network.factor=0", "network.factor=0: must be a number, above 0, at most 1"),
    ("network.period_s=0", "network.period_s=0: must be a number, at least 0.01"),
    ("compute.probability=2", "compute.probability=2: must be a number, at least 0, at most 1"),
    ("compute.max_factor=0.5", "compute.max_factor=0.5: must be a number, at least 1"),
    ("workload.heldout_fraction=0.6", "heldout_fraction=0.6: must be a number, above 0, at most"),
    ("workload=resnet_mnist5k workload.momentum=1", "momentum=1: must be a number, at least 0"),
    (
        "workload=resnet_mnist5k workload.batch_size=9",
        "workload.batch_size=9: must be at most 8 with cluster=laptop",
    ),
    ("workload=resnet_mnist5k workload.batch_size=0", "batch_size=0: must be an integer, at least"),
    ("workload=resnet_mnist5k workload.depth=9", "workload.depth=9: must be 6n + 2"),
    ("workload=resnet_mnist5k workload.framework=jax", "must be one of torch, tensorflow"),
    ("workload.framework=torch", "workload.framework=torch: must be one of none"),
    ("workload.corpus=uci", "workload.corpus: follows from the choice; set workload="),
    # data that are not there, or not wanted
    ("workload=plda_nytimes", "workload.data_dir=null: must be a folder with docword.nytimes"),
    ("workload=plda_nytimes workload.data_dir=/nowhere", "must be a folder that can be read (No"),
    ("workload=plda_reuters workload.min_word_count=3", "must be 1 with workload=plda_reuters"),
    ("workload.data_dir=/tmp", "workload.data_dir=/tmp: must be null with workload=plda_sotu"),
    ("workload=resnet_digits workload.data_dir=/tmp", "must be null with workload=resnet_digits"),
    ("workload=resnet_fashion workload.data_dir=/nowhere", "must be a folder with train-images"),
    ("workload=resnet_imagenet", "workload.data_dir=null: must be a folder with train/ and val/"),
    ("workload=resnet_imagenet workload.data_dir=/nowhere", "/nowhere/train is no folder"),
    ("workload=resnet_synthetic workload.data_dir=/tmp", "whose images are noise"),
    ("workload=resnet_synthetic workload.depth=18", "depth=18: must be one of 50, 101, 152"),
    (
        "workload=resnet_synthetic workload.framework=tensorflow workload.mixed_precision=true",
        "workload.mixed_precision=true: must be false with workload.framework=tensorflow",
    ),
    (
        "policy.delay_bound=-1",
        "delay_bound=-1: must be an integer, at least 0, below 1e+06 or one of auto",
    ),
    (
        "policy.delay_bound=never",
        "policy.delay_bound=never: must be an integer, at least 0, below 1e+06 or",
    ),
    (
        "policy.delay_bound=2.5",
        "policy.delay_bound=2.5: must be an integer, at least 0, below 1e+06 or",
    ),
    ("policy.aggregation=some", "aggregation=some: must be one of none, paper, pipelined"),
    ("policy.step_scale=2", "policy.step_scale=2: must be {key: a number, above 0}"),
    ("policy.step_scale.laptop=0", "policy.step_scale.laptop=0: must be a number, above 0"),
    ("policy.step_scale.desktop=1", "policy.step_scale.desktop: unknown key"),
    ("engine.max_seconds=nan", "engine.max_seconds=nan: must be a number, above 0"),
    ("engine.chunk_bytes=100", "chunk_bytes=100: must be an integer, at least 1024, at most 65536"),
    ("cluster.congestion_control=vegas", "must be one of cubic, bbr, reno"),
    # sound alone, not together
    ("policy=sync_backup policy.backups=8", "policy.backups=8: must be at most 7, one less than"),
    ("policy=sync_ps policy.momentum=1", "momentum=1: must be a number, at least 0, below 1"),
    ("policy=ssp policy.staleness=-1", "policy.staleness=-1: must be an integer, at least 0"),
    ("policy=sync_ps policy.momentum=0.5", "policy.momentum=0.5: must be 0.0 with workload=plda"),
    (
        "policy.step_rule=adadelay",
        "policy.step_rule=adadelay: must be constant with workload=plda_sotu",
    ),
    ("policy.aggregators=9", "policy.aggregators=9: must be at most 8 with cluster.workers=8"),
    ("policy.aggregators=8 cluster.colocated=true", "aggregators=8: must be at most 7 with"),
    ("cluster.servers=0", "cluster.servers=0: must be an integer, at least 1, at most 1000"),
    (
        "policy=ring_allreduce cluster.servers=2",
        "cluster.servers=2: must be 1 with policy=ring_allreduce, which has no server",
    ),
    (
        "policy=mpi_allreduce cluster.colocated=true",
        "cluster.colocated=true: must be false with policy=mpi_allreduce, which has no server",
    ),
    (
        "cluster.colocated=true cluster.servers=9",
        "cluster.servers=9: must be at most cluster.workers=8 with cluster.colocated=true",
    ),
    (
        "replication=chain policy=ring_allreduce",
        "replication=chain: must be none with policy=ring_allreduce, which has no server",
    ),
    (
        "replication=bounded cluster.servers=2",
        "cluster.servers=2: must be 1 with replication=bounded",
    ),
    (
        "replication=chain cluster.colocated=true",
        "cluster.colocated=true: must be false with replication=chain",
    ),
    (
        "replication=bounded policy=async_ps",
        "replication=bounded: must be none or chain with policy=async_ps, which schedules no",
    ),
    (
        "replication=bounded engine=virtual cluster=paper workload.timing_only=true",
        "replication=bounded: must be none or chain with workload.timing_only=true, where updates",
    ),
    (
        "fault=server_kill",
        "replication=none: must be chain or bounded with fault=server_kill",
    ),
    ("fault=replica_kill", "replication=none: must be chain or bounded with fault=replica_kill"),
    (
        "fault=server_kill policy=async_ps replication=chain",
        "policy=async_ps: must be one of mlfabric_a, mlfabric_s, mlfabric_ssp with fault",
    ),
    (
        "fault=worker_kill policy=ring_allreduce",
        "fault=worker_kill: fault must be none with policy=ring_allreduce, which needs",
    ),
    (
        "fault=worker_kill cluster.servers=2",
        "cluster.servers=2: must be 1 with fault=worker_kill",
    ),
    (
        "fault=aggregator_kill policy.aggregation=none",
        "policy.aggregation: must be paper or pipelined, by mlfabric_a",
    ),
    ("fault=worker_kill fault.host=w9", "fault.host=w9: must be one of w1, w2, w3, w4, w5, w6, w7"),
    ("fault=partition fault.host=replica", "fault.host=replica: must be one of server, w1, w2,"),
    ("fault=worker_kill fault.at_s=60", "fault.at_s=60: must be below engine.max_seconds=60"),
    ("fault=worker_kill fault.at_s=0", "fault.at_s=0: must be a number, above 0"),
    ("fault=worker_kill engine.mpi=mpich", "engine.mpi=mpich: must be openmpi with"),
    ("engine.fault_tolerance=true engine.mpi=mpich", "engine.mpi=mpich: must be openmpi with"),
    (
        "engine.fault_tolerance=true policy=ring_allreduce",
        "engine.fault_tolerance=true: engine.fault_tolerance must be false with policy=ring_allr",
    ),
    ("engine.lost_after_s=1", "engine.lost_after_s=1: must be at least 3 with engine=mpi"),
    ("fault=partition engine.emulation=none", "fault=partition: must be another where no link is"),
    ("fault=worker_kill cluster.workers=1", "cluster.workers=1: must be at least 2 with fault"),
    ("fault=earthquake", "fault=earthquake: unknown choice; must be one of aggregator_kill, none,"),
    ("replication=some", "replication=some: unknown choice; must be one of bounded, chain, none"),
    ("replication.bound_rounds=2", "replication.bound_rounds: belongs to replication=bounded;"),
    ("fault.host=w1", "fault.host: belongs to fault=partition, worker_kill; choose one of these"),
    ("fault.hots=w1", "fault.hots: unknown key"),
    (
        "replication=bounded replication.bound_rounds=0",
        "replication.bound_rounds=0: must be a number, above 0",
    ),
    ("cluster.servers=195", "cluster.workers=8, cluster.servers=195: these are 204 ranks"),
    ("cluster.workers=1 policy=ring_allreduce", "cluster.workers=1: must be at least 2 with"),
    ("cluster=hostfile", "cluster.hostfile=null: must be the path of an Open MPI hostfile"),
    ("cluster.hostfile=/nowhere/hosts", "cluster.hostfile=/nowhere/hosts: must be the path of an"),
    ("engine.emulation=none network=ns1", "network.probability=0.1: must be 0 (network=none)"),
    ("engine.emulation=none policy.bandwidth=oracle", "policy.bandwidth=oracle: must be measured"),
    (
        "engine.stop_at_target=true workload.targets.laptop=null",
        "engine.stop_at_target=true: must be false, as plda_sotu has no target on this cluster",
    ),
    # what real ranks cannot do
    ("cluster=paper", "cluster=paper: must be another cluster with engine=mpi; engine=virtual"),
    ("cluster.workers=201", "ranks with the scheduler's; must be at most 202 with engine=mpi"),
    ("cluster.update_bytes=1e6", "cluster.update_bytes=1000000.0: must be null with engine=mpi"),
    ("cluster.transport=reserved", "cluster.transport=reserved: must be tcp with engine=mpi"),
    ("cluster.hosts_per_rack=4", "cluster.hosts_per_rack=4: must be null with engine=mpi"),
    (
        "policy=mpi_allreduce engine.emulation=userspace",
        "policy=mpi_allreduce: must be another with engine.emulation=userspace",
    ),
    ("engine.mpi=lam", "engine.mpi=lam: must be one of openmpi, mpich, system"),
    ("engine.emulation=ns", "emulation=ns: must be one of auto, netns, userspace, none"),
    ("engine.max_updates=9", "engine.max_updates: unknown key"),
    ("workload.timing_only=true", "workload.timing_only=true: must be false with engine=mpi"),
    # what the virtual clock cannot do
    (
        "engine=virtual policy=mpi_allreduce",
        "policy=mpi_allreduce: must be another with engine=virtual, which runs no MPI",
    ),
    (
        "engine=virtual cluster=paper workload.timing_only=true policy=tree_allreduce",
        "workload.timing_only=true: must be false with policy=tree_allreduce",
    ),
    ("engine=virtual engine.emulation=none", "engine.emulation: unknown key"),
    ("engine=virtual cluster=hostfile", "cluster=hostfile: must be another cluster with"),
    ("engine=virtual cluster.hostfile=/h", "cluster.hostfile=/h: must be null with engine=virtual"),
    (
        "engine=virtual cluster.uplink_bytes_per_s=1e6",
        "cluster.uplink_bytes_per_s=1e+06: must be null without cluster.hosts_per_rack",
    ),
    (
        "engine=virtual workload.timing_only=true",
        "cluster.update_bytes=null: must be a number with workload.timing_only=true",
    ),
    (
        "engine=virtual cluster=paper workload.timing_only=true engine.stop_at_target=true",
        "engine.stop_at_target=true: must be false with workload.timing_only=true",
    ),
    ("workload=resnet_digits workload.dataset=mnist5k", "workload.dataset: follows from the"),
    ("experiment=table1 cells=3", "cells: unknown key"),
    ("tracking.uri=file:/tmp/runs", "tracking.uri=file:/tmp/runs: must be sqlite:/// and an"),
    # the form of an override
    ("network", "network: must be of the form key=value"),
    ("=3", "=3: must be of the form key=value"),
    ("+cluster.foo=1", "+cluster.foo=1: settings can be changed, not added or deleted"),
    ("++cluster.workers=1", "++cluster.workers=1: settings can be changed, not added"),
    ("~network", "~network: settings can be changed, not added or deleted"),
    ("network@other=ns1", "network@other=ns1: must be key=value, without @package"),
    ("cluster.hostfile=/tmp/a=b", """quote the value for Hydra and the whole for the shell"""),
    ("cluster.hostfile=/tmp/a=b", """'cluster.hostfile="/tmp/a=b"'"""),
    ("cluster.hostfile=[a", "cluster.hostfile=[a: cannot be read"),
    ("seed=0,1", "seed=0,1: names several values; a sweep takes -m"),
    ("cluster.bandwidth_bytes_per_s=${nothing}", "Interpolation key 'nothing' not found"),
    ("cluster.workers=???", "cluster.workers: Missing mandatory value"),
    ("hydra/launcher=nowhere", "hydra/launcher=nowhere: "),
]


@pytest.mark.parametrize(("overrides", "message"), REFUSALS)
def test_a_bad_setting_is_refused_in_one_line(overrides: str, message: str) -> None:
    with pytest.raises(SettingError) as refused:
        validate(overrides.split(" "), multirun=False)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_sweep_is_refused_for_the_badness_of_its_last_job() -> None:
    with pytest.raises(SettingError, match=r"cluster\.workers=0: must be an integer"):
        validate(["cluster.workers=8,4,0"], multirun=True)
    with pytest.raises(SettingError, match=r"network=ns9: unknown choice"):
        validate(["network=ns1,ns9"], multirun=True)


def test_the_virtual_clock_takes_what_ranks_cannot() -> None:
    asked = ["engine=virtual", "network=ns1", "policy.bandwidth=oracle", "cluster.workers=900"]
    more = [
        "policy.aggregation=pipelined",
        "cluster.transport=reserved",
        "cluster.hosts_per_rack=20",
    ]
    (config,) = validate([*asked, *more], multirun=False)
    assert config.virtual


def test_a_quoted_value_with_an_equals_sign_is_read(tmp_path: Path) -> None:
    hostfile = tmp_path / "a=b"
    hostfile.write_text("localhost slots=10\n")
    (config,) = validate(["cluster=hostfile", f'cluster.hostfile="{hostfile}"'], multirun=False)
    assert config.cluster.hostfile == str(hostfile)


@pytest.mark.parametrize(
    ("file", "multirun"), [("config.json", False), ("multirun.yaml", True)], ids=["run", "sweep"]
)
def test_a_folder_that_holds_a_run_is_refused(tmp_path: Path, file: str, multirun: bool) -> None:
    key = "hydra.sweep.dir" if multirun else "hydra.run.dir"
    assert validate([f"{key}={tmp_path}"], multirun=multirun)
    (tmp_path / file).touch()
    with pytest.raises(
        SettingError, match=f"{key}=.*: must be a folder without a run in it, or resume=auto"
    ):
        validate([f"{key}={tmp_path}"], multirun=multirun)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "must be a file that can be read"),
        ("time_s,host\n", ":1: header is 'time_s,host'; allowed: time_s,host,factor"),
        ("time_s,host,factor\n1,w99,0.5\n", "host w99 must be server or one of w1 to w8"),
    ],
)
def test_a_trace_that_cannot_be_played_is_refused(tmp_path: Path, content, told: str) -> None:
    path = tmp_path / "trace.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SettingError) as refusal:
        validate(["network=trace", f"network.trace_file={path}"], multirun=False)
    assert told in str(refusal.value)
    assert "\n" not in str(refusal.value)
