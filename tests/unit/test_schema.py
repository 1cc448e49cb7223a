"""The typed settings: what they say, and that they survive being written and read."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from experiments.overrides import validate
from experiments.policy_class import policy_class
from experiments.schema import (
    RunConfig,
    from_plain,
    read_config,
    to_plain,
    write_config,
)
from experiments.workload_class import workload_class
from mlfabric.errors import SettingError


def one(*overrides: str) -> RunConfig:
    (config,) = validate(overrides, multirun=False)
    return config


def test_defaults_are_those_of_the_table_of_contents() -> None:
    config = one()
    assert (config.seed, config.experiment, config.cluster.name) == (0, "adhoc", "laptop")
    assert isinstance(config.workload, workload_class("plda"))
    assert isinstance(config.policy, policy_class("mlfabric_a"))


def test_overrides_arrive_with_their_types() -> None:
    config = one("workload=resnet_mnist5k", "cluster.compute_s=1", "policy.delay_bound=0", "seed=7")
    assert isinstance(config.workload, workload_class("resnet"))
    assert config.workload.framework == "torch"
    assert config.cluster.compute_s == 1.0
    assert isinstance(config.cluster.compute_s, float)
    assert (config.delay_bound, config.seed) == (0, 7)


def test_the_straggler_period_follows_the_cluster_unless_it_is_set() -> None:
    assert one("network=ns1", "cluster.straggler_period_s=9").network.period_s == 9.0
    assert one("network=ns1", "network.period_s=2").network.period_s == 2.0


@pytest.mark.parametrize(
    ("overrides", "bound"),
    [
        (["cluster.workers=5"], 8),
        (["cluster.workers=1"], 0),
        (["policy.delay_bound=3"], 3),
        (["policy.delay_bound=auto"], 14),
        (["policy.delay_bound=none"], None),
        (["policy=async_ps"], None),
        (["policy=ring_allreduce"], None),
    ],
)
def test_the_delay_bound_defaults_to_twice_the_other_workers(
    overrides: list[str], bound: int | None
) -> None:
    assert one(*overrides).delay_bound == bound


def test_the_target_is_that_of_the_cluster() -> None:
    targets = "workload.targets={laptop:-7.5,laptop_contended:-7.9}"
    assert one(targets).target == -7.5
    assert one(targets, "cluster=laptop_contended").target == -7.9
    assert one("workload.targets.laptop=null").target is None


def test_a_hostfile_is_not_emulated_and_its_path_is_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hosts").write_text("localhost\n")
    monkeypatch.chdir(tmp_path)
    config = one("cluster=hostfile", "cluster.hostfile=hosts")
    assert config.cluster.hostfile == str(tmp_path / "hosts")
    assert config.emulation == "none"
    assert one().emulation == "netns"
    assert one("engine.emulation=none").emulation == "none"
    assert one("engine=virtual").emulation is None


def test_what_only_times_has_no_target() -> None:
    asked = ["engine=virtual", "cluster=paper", "workload.targets.paper=-7.5"]
    assert one(*asked).target == -7.5
    assert one(*asked, "workload.timing_only=true").target is None


def test_the_step_scale_is_that_of_the_cluster() -> None:
    scale = "policy.step_scale.laptop_contended=0.5"
    assert one("policy=ring_allreduce", scale).step_scale == 2.0
    assert one("policy=ring_allreduce", scale, "cluster=laptop_contended").step_scale == 0.5


@pytest.mark.parametrize("engine", ["mpi", "virtual"])
@pytest.mark.parametrize("workload", ["plda_sotu", "resnet_mnist5k", "resnet_digits"])
def test_settings_survive_being_written_and_read(
    tmp_path: Path, workload: str, engine: str
) -> None:
    asked = [f"workload={workload}", f"engine={engine}", "network=ns1", "policy=ring_allreduce"]
    config = one(*asked, "seed=3")
    write_config(config, tmp_path / "config.json")
    assert read_config(tmp_path / "config.json") == config
    with pytest.raises(FileExistsError):
        write_config(config, tmp_path / "config.json")


def test_settings_cannot_be_changed_once_made() -> None:
    config = one()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.cluster.workers = 3  # type: ignore[misc]


def test_plain_settings_with_gaps_or_extras_are_refused() -> None:
    plain = to_plain(one())
    with pytest.raises(SettingError, match="speed: unknown key"):
        from_plain({**plain, "speed": 3})
    with pytest.raises(SettingError, match="engine=None: must be a group of settings"):
        from_plain({key: value for key, value in plain.items() if key != "engine"})
    with pytest.raises(SettingError, match=r"compute\.max_factor: missing; must be a number"):
        from_plain({**plain, "compute": {"name": "none", "probability": 0.0}})
    with pytest.raises(SettingError, match=r"policy\.step_scale\.laptop: missing"):
        from_plain({**plain, "policy": {**plain["policy"], "step_scale": {"paper": 1.0}}})
    with pytest.raises(SettingError, match=r"engine\.name=warp: must be one of mpi, virtual"):
        from_plain({**plain, "engine": {"name": "warp"}})
    with pytest.raises(SettingError, match=r"policy\.name=spdy: must be one of async_bounded"):
        from_plain({**plain, "policy": {"name": "spdy"}})
