"""The interpolations that conf/ uses."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from datetime import datetime

from omegaconf import OmegaConf

from experiments.paths import ROOT


def register_resolvers() -> None:
    """Register `project:PATH` (absolute, in the project) and `launch_stamp:`, new each time."""
    OmegaConf.register_new_resolver("project", lambda path: str(ROOT / path), replace=True)
    OmegaConf.register_new_resolver("launch_stamp", _Stamp(launch_stamp()), replace=True)


@dataclass(frozen=True)
class _Stamp:
    """The stamp of one launch, the same in every process that it is sent to."""

    value: str

    def __call__(self) -> str:
        return self.value


def launch_stamp() -> str:
    """A folder name that no other launch has: date/time, process and random part."""
    now = datetime.now()
    return f"{now:%Y-%m-%d/%H-%M-%S}-{os.getpid()}-{secrets.token_hex(3)}"
