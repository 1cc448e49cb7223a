"""Communication policies, one file each; a file's name is the policy's name everywhere."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from mlfabric.errors import SettingError

NAMES = ("async_ps", "mlfabric_a", "ring_allreduce")
COLLECTIVE = frozenset({"ring_allreduce"})
"""Policies without a server: every worker runs one side of a synchronous sum."""


def module(name: str) -> ModuleType:
    """The policy's module; its `build` makes a `Coordinator`, or one worker's `Collective`."""
    if name not in NAMES:
        raise SettingError(f"policy={name}: must be one of {', '.join(NAMES)}")
    return import_module(f"mlfabric.policies.{name}")
