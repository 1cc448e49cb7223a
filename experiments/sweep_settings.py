"""What is asked of a sweep as a whole: the settings' section `sweep`, on which no run depends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError
from pydantic.dataclasses import dataclass

from experiments.allowed import complaint
from experiments.strict import STRICT
from mlfabric.errors import SettingError

if TYPE_CHECKING:
    from omegaconf import DictConfig

SWEEP = "sweep"
"""The key of the section."""


@dataclass(frozen=True, config=STRICT)
class SweepConfig:
    """Whether a failed run ends the sweep, and which variant speedups are told over (auto: the
    ring, else async_ps, else the first)."""

    stop_at_failure: bool
    baseline: str


def sweep_settings(cfg: DictConfig) -> SweepConfig:
    """The typed section of a composed configuration; raises SettingError for a bad value."""
    from omegaconf import OmegaConf  # ranks import this file, and compose nothing

    try:
        return SweepConfig(**OmegaConf.to_container(cfg[SWEEP], resolve=True))  # type: ignore[arg-type]
    except ValidationError as error:
        raise SettingError(complaint(SweepConfig, f"{SWEEP}.", error.errors()[0])) from None
