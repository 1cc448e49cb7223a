"""What a profile's figures need: conf/profile/*.yaml, conf/experiment/ and conf/plan/fig*.yaml."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.names import replication_name
from experiments.environment import machine
from experiments.fingerprint import fingerprint
from experiments.measurements import MEASURED
from experiments.naming import run_name
from experiments.overrides import choices, composed, launches, validate
from experiments.planner_answers import planner_figures
from experiments.profiles import Profile, Share, read_profile
from experiments.schema import RunConfig, to_plain
from mlfabric.errors import SettingError

ADHOC = "adhoc"
"""The experiment of runs that belong to no figure."""


@dataclass(frozen=True)
class PlannedRun:
    """One run that a figure needs."""

    overrides: tuple[str, ...]
    config: RunConfig
    fingerprint: str

    @property
    def label(self) -> str:
        """What tells it from the others of its plan."""
        config, bound = self.config, self.config.delay_bound
        bounds = [] if bound is None else [f"delay bound {bound}"]
        return run_name(config, f"{config.cluster.workers} workers", *bounds)

    @property
    def command(self) -> str:
        """The command line that repeats it."""
        return shlex.join(["python", "-m", "experiments.run", *self.overrides])

    def cell(self) -> dict[str, Any]:
        """The row that stands for it in plan.json."""
        config = self.config
        groups = ("workload", "cluster", "network", "compute", "policy", "engine")
        return {
            "fingerprint": self.fingerprint,
            **{group: getattr(config, group).name for group in groups},
            "aggregation": getattr(config.policy, "aggregation", None),
            "delay_bound": config.delay_bound,
            "workers": config.cluster.workers,
            "servers": config.cluster.servers,
            "colocated": config.cluster.colocated,
            "replication": replication_name(dataclasses.asdict(config.replication)),
            "fault": config.fault.name,
            "seed": config.seed,
        }


@dataclass(frozen=True)
class Plan:
    """The runs of each figure, in the order in which they are run.

    `from_planner` are figures that show the planner's answers, `measured` those of what is measured
    apart: neither needs runs.
    """

    profile: str
    from_planner: tuple[str, ...]
    measured: tuple[str, ...]
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
            "machine": machine(),
            "figures": {name: [run.cell() for run in runs] for name, runs in self.figures.items()},
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n")


def known_figures() -> list[str]:
    """Figures that can be reproduced: from the planner, then the others."""
    return planner_figures() + sorted([*_from_runs(), *MEASURED], key=_by_number)


def _from_runs() -> list[str]:
    return [name for name in choices("experiment") if name != ADHOC]


def _by_number(name: str) -> list[tuple[str, int]]:
    """fig7, fig8, fig10."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D+)(\d*)", name)]


def make_plan(profile: str, figures: Sequence[str]) -> Plan:
    """Plan a profile's figures; raises SettingError, in one line, for one that does not exist."""
    settings = read_profile(profile)
    for figure in figures:
        if figure not in known_figures():
            raise SettingError(f"figure {figure!r}: unknown; known: {', '.join(known_figures())}")
    from_planner = tuple(figure for figure in planner_figures() if figure in figures)
    measured = tuple(figure for figure in MEASURED if figure in figures)
    if unmeasured := [figure for figure in measured if figure not in settings.measured]:
        raise SettingError(f"figure {unmeasured[0]!r}: profile {profile!r} does not measure it")
    from_runs = [figure for figure in figures if figure not in (*from_planner, *measured)]
    planned = {figure: _planned(figure, settings) for figure in from_runs}
    for figure, runs in planned.items():
        if not runs:
            raise SettingError(f"figure {figure!r}: profile {profile!r} plans no run of it")
    return Plan(profile, from_planner, measured, planned)


def figures_of(profile: str) -> list[str]:
    """The known figures that a profile includes; raises SettingError for an unknown profile."""
    settings = read_profile(profile)
    from_runs = [name for name in _from_runs() if any(True for _ in cells(name, settings))]
    included = {*planner_figures(), *settings.measured, *from_runs}
    return [name for name in known_figures() if name in included]


def _planned(figure: str, profile: Profile) -> list[PlannedRun]:
    """The settings of each cell are composed once; its repetitions differ in the seed alone."""
    planned = []
    for cell, share in cells(figure, profile):
        limit = f"engine.max_seconds={share.max_seconds}"
        overrides = (f"experiment={figure}", *cell, limit, *share.overrides)
        (config,) = validate(overrides, multirun=False)
        planned += [_run(overrides, config, seed) for seed in share.seeds]
    return planned


def cells(figure: str, profile: Profile) -> Iterable[tuple[tuple[str, ...], Share]]:
    """The overrides of each cell of a figure that the profile includes, and its share.

    Cells are the settings of the sweep, and in each the variants.
    """
    chosen = f"experiment={figure}"
    forms = [launch[1:] for launch in launches([chosen])]
    sweep = composed([chosen]).hydra.sweeper.params
    axes = {str(group): str(names).split(",") for group, names in sweep.items()}
    for values in itertools.product(*axes.values()):
        cell = profile.replaced(dict(zip(axes, values, strict=True)))
        share = next((share for share in profile.runs if share.covers(figure, cell)), None)
        if share is not None:
            setting = tuple(f"{group}={value}" for group, value in cell.items())
            yield from ((setting + variant, share) for variant in forms)


def _run(cell: tuple[str, ...], config: RunConfig, seed: int) -> PlannedRun:
    seeded = dataclasses.replace(config, seed=seed)
    return PlannedRun((*cell, f"seed={seed}"), seeded, fingerprint(json.dumps(to_plain(seeded))))
