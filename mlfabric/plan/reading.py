"""From the bytes of a JSON text to plain values."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from mlfabric.errors import SettingError
from mlfabric.plan.complaints import field

Pairs = list[tuple[str, Any]]


def read_bytes(source: str, stdin: BinaryIO | None) -> bytes:
    """Content of the file, or of standard input (None: closed) for `-`; raises SettingError."""
    if not source:
        raise SettingError('FILE: "": must be the path of a file, or -')
    try:
        if source != "-":
            return Path(source).read_bytes()
        if stdin is None:
            raise SettingError("standard input: closed")
        return stdin.read()
    except OSError as error:
        name = "standard input" if source == "-" else source
        raise SettingError(f"{name}: {error.strerror}") from None


def parse(data: bytes) -> Any:
    """The JSON value in UTF-8 `data`; SettingError where it is none or an object repeats a key.

    NaN and infinities come back as floats: whoever knows the field refuses them.
    """
    objects = _Objects()
    try:
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=objects.add)
    except UnicodeDecodeError as error:
        raise SettingError(f"the input: not UTF-8: byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise SettingError(f"the input: not JSON: {place}: {error.msg}") from None
    except RecursionError:
        raise SettingError("the input: lists and objects are nested too deeply") from None
    except ValueError:  # Python refuses to convert them, as that takes quadratic time
        digits = sys.get_int_max_str_digits()
        raise SettingError(f"the input: an integer has more than {digits} digits") from None
    objects.refuse_repeated(value)
    return value


class _Objects:
    """Makes dicts of JSON objects and remembers which of them repeat a key."""

    def __init__(self) -> None:
        self._repeated: dict[int, tuple[dict[str, Any], str]] = {}

    def add(self, pairs: Pairs) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            key = next(k for k, times in Counter(k for k, _ in pairs).items() if times > 1)
            self._repeated[id(made)] = (made, key)
        return made

    def refuse_repeated(self, value: Any) -> None:
        """Raise SettingError that names the first repeated key within `value`."""
        if not self._repeated:
            return
        for location, inner in _walk(value, ()):
            if id(inner) in self._repeated:
                key = self._repeated[id(inner)][1]
                raise SettingError(f"{field([*location, key])}: the key is given twice")


def _walk(value: Any, location: tuple[str | int, ...]) -> Iterator[tuple[Any, Any]]:
    """Every value inside `value`, itself first, with where it is."""
    yield location, value
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, part in inner:
        yield from _walk(part, (*location, key))
