"""What a field of the settings allows, and what is wrong with a value, each in one line."""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

_NAMES = {int: "an integer", float: "a number", bool: "true or false", str: "a text"}
_BOUNDS = {Ge: ("ge", "at least"), Gt: ("gt", "above"), Le: ("le", "at most"), Lt: ("lt", "below")}


def allowed(annotation: Any) -> str:
    """What values a type annotation with bounds admits, e.g. "a number, at least 0, at most 1"."""
    origin = get_origin(annotation)
    if origin is Annotated:
        kind, *constraints = get_args(annotation)
        return ", ".join([allowed(kind), *_bounds(constraints)])
    if origin is Literal:
        return "one of " + ", ".join(str(choice) for choice in get_args(annotation))
    if origin in (Union, types.UnionType):
        parts = [part for part in get_args(annotation) if part is not type(None)]
        return " or ".join([*map(allowed, parts), "null"])
    if origin is dict:
        return f"{{key: {allowed(get_args(annotation)[1])}}}"
    if origin is list:
        return f"a list, each {allowed(get_args(annotation)[0])}"
    return _NAMES[annotation]


def complaint(kind: type[Any], prefix: str, error: Mapping[str, Any]) -> str:
    """One line on a pydantic error of the settings class `kind`, whose keys start with `prefix`."""
    hints = get_type_hints(kind, include_extras=True)
    name, *inner = error["loc"]
    key = f"{prefix}{name}"
    if error["type"] == "unexpected_keyword_argument":
        return unknown_key(key, [prefix + field for field in hints])
    hint = hints[name]
    if inner and get_origin(hint) is list:
        key, hint = f"{key}.{inner[0]}", get_args(hint)[0]
    if inner and get_origin(hint) is dict:  # one of its values; else pydantic names a union's part
        key, hint = f"{key}.{inner[0]}", get_args(hint)[1]
    if error["type"] == "missing":
        return f"{key}: missing; must be {allowed(hint)}"
    reason = error.get("ctx", {}).get("error")  # of a validator of ours
    return f"{key}={shown(error['input'])}: must be {reason or allowed(hint)}"


def unknown_key(key: str, known: Iterable[str]) -> str:
    """One line that refuses `key` and names the nearest known one, or else all of them."""
    names = list(known)
    near = difflib.get_close_matches(key, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
    return f"{key}: unknown key; {hint}"


def shown(value: Any) -> str:
    """A value as a user would write it, a text that looks like another type in quotes."""
    if isinstance(value, str):
        return repr(value) if re.fullmatch(r"[-+\d.e]+|true|false|null", value) else value
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    return str(value)


def _bounds(constraints: Iterable[Any]) -> list[str]:
    known = [(constraint, _BOUNDS.get(type(constraint))) for constraint in constraints]
    return [f"{names[1]} {getattr(bound, names[0]):g}" for bound, names in known if names]
