"""How settings are read: nothing unknown, nothing of another type, no NaN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def derived(
    base: type[Any],
    title: str,
    fields: Mapping[str, Any],
    defaults: Mapping[str, Any],
    told: str | None,
) -> Any:
    """A settings class: the fields of `base` and these, a type each; `told` is its docstring."""
    own = {"__annotations__": dict(fields), "__module__": base.__module__, "__doc__": told}
    body = {**defaults, **own}
    plain = type(title, (base,), body)
    return dataclass(frozen=True, config=STRICT, kw_only=True)(plain)
