"""Every combination of choices composes into sound settings, and every file says whose values."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from experiments import overrides
from experiments.overrides import GROUPS, VARYING, choices, launches, validate
from experiments.paths import CONF
from mlfabric.errors import SettingError
from mlfabric.policies import place

# A hostfile, a trace and some data must be given: tested with the settings.
GIVEN = ("plda_nytimes", "resnet_fashion", "resnet_imagenet")
APART = ("cluster", "engine", "experiment")
SWEEP = {group: choices(group) for group in GROUPS if group not in APART}
SWEEP["network"] = [name for name in SWEEP["network"] if name != "trace"]
SWEEP["workload"] = [name for name in SWEEP["workload"] if name not in GIVEN]
PLACES = [
    (engine, cluster)
    for engine in choices("engine")
    for cluster in choices("cluster")
    if cluster != "hostfile" and (engine, cluster) not in (("mpi", "paper"), ("virtual", "slurm"))
]


@pytest.mark.parametrize(("engine", "cluster"), PLACES)
def test_every_workload_and_policy_composes_wherever_it_runs(engine: str, cluster: str) -> None:
    runs_there = [p for p in SWEEP["policy"] if engine == "mpi" or place(p) != "library"]
    axes = {"workload": SWEEP["workload"], "policy": runs_there}
    assert_composes({**axes, "engine": [engine], "cluster": [cluster]})


@pytest.mark.parametrize("engine", choices("engine"))
def test_every_pair_of_stragglers_composes(engine: str) -> None:
    assert_composes(
        {group: SWEEP[group] for group in ("network", "compute")} | {"engine": [engine]}
    )


def assert_composes(axes: dict[str, list[str]]) -> None:
    """Check that each combination of these choices is a job of its own."""
    jobs = validate([f"{group}={','.join(names)}" for group, names in axes.items()], multirun=True)
    expected = set(itertools.product(*axes.values()))
    chosen = [tuple(getattr(job, group).name for group in axes) for job in jobs]
    assert len(chosen) == len(expected)
    assert set(chosen) == expected


@pytest.mark.parametrize("experiment", choices("experiment"))
def test_every_experiment_composes(experiment: str) -> None:
    jobs = validate([f"experiment={experiment}"], multirun=True)
    assert {job.experiment for job in jobs} == {experiment}


def test_the_sweep_of_an_experiment_gives_way_to_the_command_line() -> None:
    everything = validate(["experiment=fig7"], multirun=True)
    narrowed = validate(["experiment=fig7", "policy=async_ps"], multirun=True)
    assert {job.policy.name for job in everything} == {"async_ps", "mlfabric_a", "ring_allreduce"}
    assert {job.policy.name for job in narrowed} == {"async_ps"}
    assert len(everything) == 3 * len(narrowed)


def test_each_variant_of_an_experiment_meets_each_setting_of_its_sweep() -> None:
    jobs = validate(["experiment=table1"], multirun=True)
    cells = {
        (
            job.policy.name,
            getattr(job.policy, "aggregation", None),
            job.network.name,
            job.compute.name,
        )
        for job in jobs
    }
    assert len(jobs) == len(cells) == 4 * 3 * 3
    assert {cell[:2] for cell in cells} == {
        ("mlfabric_a", "paper"),
        ("mlfabric_a", "pipelined"),
        ("ring_allreduce", None),
        ("async_ps", None),
    }
    assert {(job.cluster.name, job.engine.name) for job in jobs} == {("paper", "virtual")}


def test_variants_give_way_to_the_command_line() -> None:
    chosen, only = "experiment=table1", "policy=mlfabric_a"
    assert launches([chosen, only]) == [
        (chosen, only, "policy.aggregation=paper"),
        (chosen, only, "policy.aggregation=pipelined"),
    ]
    two = validate([chosen, "policy=async_ps,ring_allreduce", "network=ns1"], multirun=True)
    assert [job.policy.name for job in two] == 3 * ["ring_allreduce"] + 3 * ["async_ps"]
    assert launches([only]) == [(only,)]


def test_a_command_line_like_no_variant_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [["policy=mlfabric_a"], ["policy=async_ps"]]
    monkeypatch.setattr(overrides, "_compose", lambda texts: {overrides.VARIANTS: listed})
    assert launches(["policy=async_ps", "seed=3"]) == [("seed=3", "policy=async_ps")]
    with pytest.raises(SettingError) as refused:
        launches(["policy=ring_allreduce"])
    assert str(refused.value) == "policy=ring_allreduce: no variant of the experiment is like this"


def test_the_scale_is_timing_of_up_to_a_thousand_workers() -> None:
    jobs = validate(["experiment=scale"], multirun=True)
    assert {job.cluster.workers for job in jobs} == {10, 30, 100, 300, 1000}
    assert all(job.workload.timing_only and job.target is None for job in jobs)


def test_the_bounds_of_fig10_are_multiples_of_the_workers_and_none() -> None:
    jobs = validate(["experiment=fig10"], multirun=True)
    assert [job.delay_bound for job in jobs] == [15, 30, 60, 120, None]


@pytest.mark.parametrize("group", [group for group in GROUPS if group not in VARYING])
def test_the_choices_of_most_groups_have_the_same_keys(group: str) -> None:
    keys = [set(OmegaConf.load(path)) for path in (CONF / group).glob("*.yaml")]
    assert all(found == keys[0] for found in keys)


@pytest.mark.parametrize("group", [group for group in GROUPS if group != "experiment"])
def test_every_choice_of_a_group_is_named_as_its_file(group: str) -> None:
    for path in (CONF / group).glob("*.yaml"):
        if group != "tracking":
            assert re.search(rf"^name: {path.stem}$", path.read_text(), re.MULTILINE), path


@pytest.mark.parametrize("path", sorted(CONF.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_says_whose_values_it_holds(path: Path) -> None:
    text = path.read_text()
    values = re.search(r"[:\[ ]-?\d", re.sub(r"#.*", "", text))
    assert re.search(r"\[(paper|inferred|ours)", text) or not values, path
