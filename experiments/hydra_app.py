"""Hydra's own run of a task: composing, folders, sweeps, launchers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import hydra
from omegaconf import DictConfig

from experiments.overrides import search_path
from experiments.paths import CONF


def launch(arguments: list[str], task: Callable[[DictConfig], Any]) -> None:
    """Compose as Hydra does and call task(cfg) for each job; its errors are raised, not printed."""
    os.environ["HYDRA_FULL_ERROR"] = "1"
    sys.argv = [sys.argv[0], *arguments, *search_path()]
    hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(task)()
