"""What is wrong with a value of the input, and what is allowed there, each in one line."""

from __future__ import annotations

import difflib
import json
import re
import types
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, MinLen
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

_NAMES = {int: "an integer", float: "a number", bool: "true or false", str: "a text"}
_CONTAINERS = {dict: "an object", list: "a list", tuple: "a pair [time, bytes/s]"}
_REASONS = {"string_unicode": "a text without lone surrogates"}
"""What pydantic refuses although its type would allow it."""

_OF_KEYS = ("invalid_key", "extra_forbidden")
"""Errors whose location ends with a key that no annotation knows."""

_LONGEST = 40
"""Characters of a value that are shown."""


def field(location: Iterable[str | int]) -> str:
    """The name of a place in the input, e.g. `updates[1].bytes`."""
    return "".join(map(_step, location)).removeprefix(".") or "the input"


def shown(value: Any) -> str:
    """A value as JSON, the inside of lists and objects left out."""
    if isinstance(value, dict):
        return "{…}" if value else "{}"
    if isinstance(value, list | tuple):
        return "[…]" if value else "[]"
    text = json.dumps(value, default=repr)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def refusal(location: Iterable[str | int], value: Any, allowed: str) -> str:
    """One line: the field, its value, and what it must be."""
    return f"{field(location)}: {shown(value)}: must be {allowed}"


def complaint(model: type[BaseModel], error: ValidationError) -> str:
    """One line on the first thing that does not fit `model`."""
    first = _most_telling(error.errors(include_url=False))
    kind, location, value = first["type"], first["loc"], first["input"]
    if kind.startswith("string_") and location[-1:] == ("[key]",):  # pydantic's mark of a key
        return _bad_key(location[:-2], value, kind)
    hint = _hint(model, location[:-1] if kind in _OF_KEYS else location)
    if kind == "string_unicode" and _is_model(_bare(hint)):  # told of the object that has the key
        return _bad_key(location, value, kind)
    if kind == "invalid_key":
        return _bad_key(location[:-1], location[-1], kind)
    if kind == "extra_forbidden":
        return _unknown_key(location, _bare(hint))
    if kind == "missing":
        return f"{field(location)}: missing; must be {_allowed(hint)}"
    reason = first.get("ctx", {}).get("error")  # of a validator of ours
    return refusal(location, value, str(reason or _REASONS.get(kind) or _allowed(hint)))


def _most_telling(errors: Sequence[ErrorDetails]) -> ErrorDetails:
    """The first error; a misspelt key rather than the missing one that was meant by it."""
    first = errors[0]
    parent = first["loc"][:-1]
    beside = [e for e in errors if e["type"] == "extra_forbidden" and e["loc"][:-1] == parent]
    return beside[0] if first["type"] == "missing" and beside else first


def _unknown_key(location: Sequence[str | int], model: type[BaseModel]) -> str:
    known = list(model.model_fields)
    near = difflib.get_close_matches(str(location[-1]), known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
    return f"{field(location)}: unknown key; {hint}"


def _bad_key(parent: Sequence[str | int], key: Any, kind: str) -> str:
    allowed = _REASONS.get(kind, f"{_allowed(str)}, not empty")
    return f"{field(parent)}: the key {shown(key)} must be {allowed}"


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    plain = re.fullmatch(r"[\w-]+", part) and len(part) <= _LONGEST
    return f".{part}" if plain else f"[{shown(part)}]"


def _hint(hint: Any, location: Iterable[str | int]) -> Any:
    """The annotation of a place inside `hint`."""
    for part in location:
        hint = _bare(hint)
        if _is_model(hint):
            hint = get_type_hints(hint, include_extras=True)[str(part)]
        else:
            inner = get_args(hint)  # of a dict its key and value, of a list its element
            hint = inner[int(part)] if get_origin(hint) is tuple else inner[-1]
    return hint


def _is_model(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, BaseModel)


def _bare(hint: Any) -> Any:
    """An annotation without its constraints, and without the null that it may also allow."""
    if get_origin(hint) is Annotated:
        return _bare(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return _bare(get_args(hint)[0])
    return hint


def _allowed(hint: Any) -> str:
    """What an annotation admits, e.g. "a number, at least 0 or null"."""
    origin = get_origin(hint)
    if origin is Annotated:
        kind, *constraints = get_args(hint)
        return ", ".join([_allowed(kind), *filter(None, map(_bound, constraints))])
    if origin is Literal:
        return "one of " + ", ".join(get_args(hint))
    if origin in (Union, types.UnionType):
        return f"{_allowed(get_args(hint)[0])} or null"
    if origin:
        return _CONTAINERS[origin]
    return _NAMES.get(hint, "an object")  # of a model


def _bound(constraint: Any) -> str | None:
    match constraint:
        case Gt(gt=bound):
            return f"above {bound}"
        case Ge(ge=bound):
            return f"at least {bound}"
        case MinLen():
            return "not empty"
    return None
