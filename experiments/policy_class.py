"""Settings classes of policies, made of the options that each policy declares."""

from __future__ import annotations

import dataclasses
import types
from functools import cache
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Lt
from pydantic.dataclasses import dataclass

from experiments.strict import STRICT, derived
from mlfabric import policies
from mlfabric.policies.base import AtLeast, Below


@dataclass(frozen=True, config=STRICT)
class PolicyConfig:
    """A policy's name, and what every gradient step is multiplied by, by cluster."""

    name: str
    step_scale: dict[str, Annotated[float, Gt(0)]]

    def options(self) -> dict[str, Any]:
        """What the policy itself is told."""
        common = {field.name for field in dataclasses.fields(PolicyConfig)}
        values = dataclasses.asdict(self)
        return {name: value for name, value in values.items() if name not in common}


@cache
def policy_class(name: str) -> type[PolicyConfig]:
    """The settings of policy `name`: common ones, and its module's `Options`."""
    options = policies.module(name).Options
    hints = get_type_hints(options, include_extras=True)
    annotations = {"name": Literal[name]} | {key: _bounded(hint) for key, hint in hints.items()}
    made = derived(PolicyConfig, f"{name}_settings", annotations, {}, options.__doc__)
    return cast(type[PolicyConfig], made)


def _bounded(hint: Any) -> Any:
    """The library's bounds as pydantic knows them."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(_bounded(args[0]), *map(_bound, args[1:]))]
    if origin in (Union, types.UnionType):
        return Union[tuple(map(_bounded, args))]  # noqa: UP007
    return hint


def _bound(mark: Any) -> Any:
    match mark:
        case AtLeast(value):
            return Ge(value)
        case Below(value):
            return Lt(value)
    return mark
