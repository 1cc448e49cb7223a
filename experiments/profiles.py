"""conf/profile/*.yaml: how much of the figures is run, and on what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeVar

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass

from experiments.allowed import complaint
from experiments.overrides import choices
from experiments.paths import CONF
from experiments.sections import Positive
from mlfabric.errors import SettingError

T = TypeVar("T")
_STRICT = ConfigDict(strict=True, extra="forbid")


@dataclass(frozen=True, config=_STRICT)
class Share:
    """The repetitions and the training time of a cluster's cells.

    `workload` and `figure` narrow it to theirs; `overrides` are further settings of every run.
    `budget_s` is the time at whose 80 % the target was found, where a run may take longer.
    """

    cluster: str
    seeds: list[int]
    max_seconds: Positive
    workload: str | None = None
    figure: str | None = None
    budget_s: Positive | None = None
    overrides: list[str] = field(default_factory=list)

    @property
    def target_budget_s(self) -> float:
        """The training time at whose 80 % the target is found."""
        return self.budget_s or self.max_seconds

    def covers(self, figure: str, cell: Mapping[str, str]) -> bool:
        """Whether the figure's cell is among them."""
        asked = (self.cluster, self.workload, self.figure)
        found = (cell["cluster"], cell["workload"], figure)
        return all(name in (None, other) for name, other in zip(asked, found, strict=True))


@dataclass(frozen=True, config=_STRICT)
class Profile:
    """A cell of a figure follows the first share that covers it; `measured` names the figures of
    what is measured apart. `replaces` gives, by group, other choices for those of the figures."""

    runs: list[Share]
    measured: list[str] = field(default_factory=list)
    replaces: dict[str, dict[str, str]] = field(default_factory=dict)

    def replaced(self, cell: Mapping[str, str]) -> dict[str, str]:
        """A cell with the choices of this profile."""
        return {group: self.replaces.get(group, {}).get(name, name) for group, name in cell.items()}


def read_profile(name: str) -> Profile:
    """Read conf/profile/<name>.yaml; raises SettingError for an unknown one or a bad setting."""
    if name not in choices("profile"):
        known = ", ".join(choices("profile"))
        raise SettingError(f"profile {name!r}: unknown; known: {known}")
    loaded = OmegaConf.load(CONF / "profile" / f"{name}.yaml")
    try:
        content: Any = OmegaConf.to_container(loaded, resolve=True)
    except OmegaConfBaseException as error:
        raise SettingError(f"profile {name}: {_missing(str(error))}") from None
    shares = enumerate(content.pop("runs", []))
    runs = [_made(Share, f"profile {name}: runs.{i}.", share) for i, share in shares]
    return _made(Profile, f"profile {name}: ", {"runs": runs, **content})


def _missing(reason: str) -> str:
    """Of an interpolation that failed: the variable that is to be given."""
    variable = re.search(r"Environment variable '(\w+)' not found", reason)
    if variable is None:
        return reason.splitlines()[0]
    asked = variable.group(1)
    return (
        f"{asked}: must be given, the path of your data: make reproduce-figures {asked}=/path ..."
    )


def _made(kind: type[T], prefix: str, content: Mapping[str, Any]) -> T:
    try:
        return kind(**content)
    except ValidationError as error:
        raise SettingError(complaint(kind, prefix, error.errors()[0])) from None
