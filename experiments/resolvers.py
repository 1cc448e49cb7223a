"""The interpolations that conf/ uses."""

from __future__ import annotations

import functools
import os
import secrets
from datetime import datetime

from omegaconf import OmegaConf

from experiments.paths import ROOT


def register_resolvers() -> None:
    """Register `project:PATH` (absolute, in the project) and `launch_stamp:`."""
    OmegaConf.register_new_resolver("project", lambda path: str(ROOT / path), replace=True)
    OmegaConf.register_new_resolver("launch_stamp", _launch_stamp, replace=True)


@functools.cache
def _launch_stamp() -> str:
    """A folder name no other launch has: date/time, process and random part; one a process."""
    now = datetime.now()
    return f"{now:%Y-%m-%d/%H-%M-%S}-{os.getpid()}-{secrets.token_hex(3)}"
