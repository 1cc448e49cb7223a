"""Communication policies, one file each; a file's name is the policy's name everywhere.

A package outside adds one by an entry point of the group `mlfabric.policies`: its name is the
policy's, its value the module.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from types import ModuleType

from mlfabric.errors import SettingError
from mlfabric.policies.base import Place

GROUP = "mlfabric.policies"
_NO_POLICIES = ("base", "parts")


@cache
def names() -> tuple[str, ...]:
    """Every policy there is: this folder's files, then those of other packages."""
    here = sorted(found.name for found in iter_modules(__path__))
    return (*(name for name in here if name not in _NO_POLICIES), *sorted(_added()))


@cache
def module(name: str) -> ModuleType:
    """The policy's module; SettingError where there is none.

    It tells its PLACE (`base.Place`) and its `Options`, a dataclass of the settings that it has of
    its own. With PLACE scheduler or server, `build(context)` makes the `Coordinator` and
    SENDS_AT_ONCE tells whether workers send an update straight to the server as soon as they have
    it; the coordinator then hears of it by `UpdateReady` when its first bytes are announced, and
    needs no `StartTransfer`. With PLACE workers, `build(context)` makes the `Sums`.
    """
    if name not in names():
        raise SettingError(f"policy={name}: must be one of {', '.join(names())}")
    if name in _added():
        found: ModuleType = _added()[name].load()
        return found
    return import_module(f"mlfabric.policies.{name}")


def place(name: str) -> Place:
    """Where the policy's logic runs."""
    found: Place = module(name).PLACE
    return found


def is_collective(name: str) -> bool:
    """Whether it is a synchronous sum over all workers, without a server."""
    return place(name) in ("workers", "library")


@cache
def _added() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
