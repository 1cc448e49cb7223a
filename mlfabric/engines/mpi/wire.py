"""Control messages as msgpack: plain values, and the library's own events and actions by name."""

from __future__ import annotations

from typing import Any

import msgpack

from mlfabric import actions, events
from mlfabric.errors import ProtocolError

_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for module in (events, actions)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, tuple)
}


def encode(message: Any) -> bytes:
    """Bytes of a message made of plain values, tuples, events and actions."""
    packed: bytes = msgpack.packb(message, default=_plain, strict_types=True)
    return packed


def decode(data: bytes | memoryview) -> Any:
    """The message, lists as tuples; raises ProtocolError for anything that `encode` never makes."""
    try:
        return msgpack.unpackb(data, use_list=False, object_hook=_object, strict_map_key=False)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise ProtocolError(f"control message of {len(data)} bytes: {error}") from None


def _plain(value: Any) -> Any:
    if type(value).__name__ in _KINDS:
        return {"$": type(value).__name__, **value._asdict()}
    if isinstance(value, tuple):
        return list(value)
    raise TypeError(f"cannot send a {type(value).__name__}")


def _object(found: dict[Any, Any]) -> Any:
    name = found.pop("$", None)
    if name is None:
        return found
    if name not in _KINDS:
        raise ProtocolError(f"unknown message kind {name!r}")
    return _KINDS[name](**found)
