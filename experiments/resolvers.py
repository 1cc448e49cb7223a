"""The interpolations that conf/ uses."""

from __future__ import annotations

import functools
import os
import secrets
from datetime import datetime

from omegaconf import OmegaConf

from experiments.paths import ROOT


def register_resolvers() -> None:
    """Register `project:PATH` (absolute, in the project) and `launch_stamp:`, new each time."""
    OmegaConf.register_new_resolver("project", lambda path: str(ROOT / path), replace=True)
    stamp = functools.cache(launch_stamp)
    OmegaConf.register_new_resolver("launch_stamp", stamp, replace=True)


def launch_stamp() -> str:
    """A folder name that no other launch has: date/time, process and random part."""
    now = datetime.now()
    return f"{now:%Y-%m-%d/%H-%M-%S}-{os.getpid()}-{secrets.token_hex(3)}"
