"""What a profile's figures need: conf/profile/*.yaml, conf/experiment/ and conf/plan/fig*.yaml."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from experiments.allowed import complaint
from experiments.fingerprint import fingerprint
from experiments.overrides import choices, composed, validate
from experiments.paths import CONF
from experiments.planner_answers import planner_figures
from experiments.schema import Positive, RunConfig, to_plain
from mlfabric.errors import SettingError


@checked_dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class Share:
    """The repetitions and the training time of a cluster's cells, or of one workload's on it."""

    cluster: str
    seeds: list[int]
    max_seconds: Positive
    workload: str | None = None

    def covers(self, cell: Mapping[str, str]) -> bool:
        """Whether the cell is among them."""
        return self.cluster == cell["cluster"] and self.workload in (None, cell["workload"])


@dataclass(frozen=True)
class Profile:
    """How much of the figures is run; a cell follows the first share that covers it."""

    runs: tuple[Share, ...]


@dataclass(frozen=True)
class PlannedRun:
    """One run that a figure needs."""

    overrides: tuple[str, ...]
    config: RunConfig
    fingerprint: str

    @property
    def label(self) -> str:
        """What tells it from the others of its plan."""
        config = self.config
        names = (config.workload.name, config.policy.name, config.cluster.name)
        return f"{' '.join(names)} seed {config.seed}"

    @property
    def command(self) -> str:
        """The command line that repeats it."""
        return shlex.join(["python", "-m", "experiments.run", *self.overrides])

    def cell(self) -> dict[str, Any]:
        """The row that stands for it in plan.json."""
        groups = ("workload", "cluster", "network", "compute", "policy")
        names = {group: getattr(self.config, group).name for group in groups}
        return {"fingerprint": self.fingerprint, **names, "seed": self.config.seed}


@dataclass(frozen=True)
class Plan:
    """The runs of each figure, in the order in which they are run.

    `from_planner` are figures that show the planner's answers: they need no runs.
    """

    profile: str
    from_planner: tuple[str, ...]
    figures: dict[str, list[PlannedRun]]

    def runs(self) -> list[PlannedRun]:
        """Every run once, one repetition of everything before the next."""
        unique: dict[str, PlannedRun] = {}
        for run in itertools.chain(*self.figures.values()):
            unique.setdefault(run.fingerprint, run)
        return sorted(unique.values(), key=lambda run: run.config.seed)

    def write(self, path: Path) -> None:
        """Write the plan.json that the analysis draws from; without runs it names no store."""
        runs = self.runs()
        tracking = runs[0].config.tracking if runs else None
        content = {
            "profile": self.profile,
            "tracking_uri": tracking and tracking.uri,
            "tracking_experiment": tracking and tracking.experiment,
            "figures": {name: [run.cell() for run in runs] for name, runs in self.figures.items()},
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n")


def known_figures() -> list[str]:
    """Figures that can be reproduced: from the planner, then from runs."""
    return planner_figures() + [name for name in choices("experiment") if name.startswith("fig")]


def make_plan(profile: str, figures: Sequence[str]) -> Plan:
    """Plan a profile's figures; raises SettingError, in one line, for one that does not exist."""
    settings = read_profile(profile)
    for figure in figures:
        if figure not in known_figures():
            raise SettingError(f"figure {figure!r}: unknown; known: {', '.join(known_figures())}")
    from_planner = tuple(figure for figure in planner_figures() if figure in figures)
    from_runs = [figure for figure in figures if figure not in from_planner]
    return Plan(profile, from_planner, {figure: _planned(figure, settings) for figure in from_runs})


def read_profile(name: str) -> Profile:
    """Read conf/profile/<name>.yaml; raises SettingError for an unknown one or a bad setting."""
    if name == "paper":
        raise SettingError("profile 'paper': not yet available; it needs a cluster and your data")
    if name not in choices("profile"):
        known = ", ".join(choices("profile"))
        raise SettingError(f"profile {name!r}: unknown; known: {known}")
    content: Any = OmegaConf.to_container(OmegaConf.load(CONF / "profile" / f"{name}.yaml"))
    if list(content) != ["runs"]:
        raise SettingError(f"profile {name}: {', '.join(content)}: must be runs alone")
    shares = enumerate(content["runs"])
    return Profile(tuple(_share(f"profile {name}: runs.{i}.", share) for i, share in shares))


def _share(prefix: str, content: dict[str, Any]) -> Share:
    try:
        return Share(**content)
    except ValidationError as error:
        raise SettingError(complaint(Share, prefix, error.errors()[0])) from None


def _planned(figure: str, profile: Profile) -> list[PlannedRun]:
    """The settings of each cell are composed once; its repetitions differ in the seed alone."""
    planned = []
    for cell, share in _cells(figure, profile):
        overrides = (f"experiment={figure}", *cell, f"engine.max_seconds={share.max_seconds}")
        (config,) = validate(overrides, multirun=False)
        planned += [_run(overrides, config, seed) for seed in share.seeds]
    return planned


def _cells(figure: str, profile: Profile) -> Iterable[tuple[tuple[str, ...], Share]]:
    """The overrides of each cell of a figure's sweep that the profile includes, its share."""
    sweep = composed([f"experiment={figure}"]).hydra.sweeper.params
    axes = {str(group): str(names).split(",") for group, names in sweep.items()}
    for values in itertools.product(*axes.values()):
        cell = dict(zip(axes, values, strict=True))
        share = next((share for share in profile.runs if share.covers(cell)), None)
        if share is not None:
            yield tuple(f"{group}={value}" for group, value in cell.items()), share


def _run(cell: tuple[str, ...], config: RunConfig, seed: int) -> PlannedRun:
    seeded = dataclasses.replace(config, seed=seed)
    return PlannedRun((*cell, f"seed={seed}"), seeded, fingerprint(json.dumps(to_plain(seeded))))
