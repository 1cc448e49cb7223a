"""Communication policies, one file each; a file's name is the policy's name everywhere."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from mlfabric.errors import SettingError

NAMES = ("async_ps", "mlfabric_a", "ring_allreduce")
COLLECTIVE = frozenset({"ring_allreduce"})
"""Policies without a server: every worker runs one side of a synchronous sum."""


def module(name: str) -> ModuleType:
    """The policy's module; its `build` makes a `Coordinator`, or one worker's `Collective`.

    A coordinator's module also tells its PLACE, the host role that runs it, and SENDS_AT_ONCE:
    whether workers send an update straight to the server as soon as they have it. The coordinator
    then hears of it by `UpdateReady` when its first bytes are announced, and needs no
    `StartTransfer`.
    """
    if name not in NAMES:
        raise SettingError(f"policy={name}: must be one of {', '.join(NAMES)}")
    return import_module(f"mlfabric.policies.{name}")
