"""Every combination of choices composes into sound settings, and every file says whose values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.overrides import GROUPS, choices, validate
from experiments.paths import CONF

# A hostfile and a trace must be given: tested with the settings.
SWEEP = {group: choices(group) for group in GROUPS if group not in ("cluster", "experiment")}
SWEEP["network"] = [name for name in SWEEP["network"] if name != "trace"]
CLUSTERS = [name for name in choices("cluster") if name != "hostfile"]


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("network", SWEEP["network"])
def test_every_combination_of_choices_composes(cluster: str, network: str) -> None:
    axes = {**SWEEP, "network": [network], "cluster": [cluster]}
    jobs = validate([f"{group}={','.join(names)}" for group, names in axes.items()], multirun=True)
    expected = 1
    for names in axes.values():
        expected *= len(names)
    chosen = {
        tuple(getattr(job, group).name for group in axes if group != "tracking") for job in jobs
    }
    assert len(jobs) == len(chosen) == expected


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
