"""Settings classes of workloads, made of the fields that each kind of workload declares."""

from __future__ import annotations

import dataclasses
import os
import types
from functools import cache
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from pydantic import AfterValidator
from pydantic.dataclasses import dataclass

from experiments.strict import STRICT, derived
from workloads import kinds
from workloads.base import Location

_OF_THE_RUN = ("name", "seed", "cache_dir")
"""Fields of a workload that are no settings of its own."""


@dataclass(frozen=True, config=STRICT)
class WorkloadConfig:
    """What the settings of every workload hold beside its own.

    `targets` is the level of the metric at which time-to-target stops, by cluster.
    """

    name: str
    kind: str
    framework: str
    targets: dict[str, float | None]
    timing_only: bool

    def own(self) -> dict[str, Any]:
        """What the workload itself is told."""
        common = {field.name for field in dataclasses.fields(WorkloadConfig)} - {"framework"}
        values = dataclasses.asdict(self)
        return {name: value for name, value in values.items() if name not in common}


@cache
def workload_class(kind: str) -> type[WorkloadConfig]:
    """The settings of workloads of a kind; raises WorkloadError where there is no such kind."""
    found = kinds.workload_class(kind)
    hints = get_type_hints(found, include_extras=True)
    own = [one for one in dataclasses.fields(cast(Any, found)) if one.name not in _OF_THE_RUN]
    fields = {"kind": Literal[kind]} | {one.name: _read(hints[one.name]) for one in own}
    defaults = {one.name: one.default for one in own if one.default is not dataclasses.MISSING}
    made = derived(WorkloadConfig, f"{kind}_settings", fields, defaults, found.__doc__)
    return cast(type[WorkloadConfig], made)


def _read(hint: Any) -> Any:
    """A field's type as pydantic reads it: paths become absolute."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        marks = (
            AfterValidator(os.path.abspath) if isinstance(m, Location) else m for m in args[1:]
        )
        return Annotated[(_read(args[0]), *marks)]
    if origin in (Union, types.UnionType):
        return Union[tuple(map(_read, args))]  # noqa: UP007
    return hint
