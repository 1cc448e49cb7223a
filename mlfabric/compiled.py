"""Compiles inner loops, and keeps their machine code for the next process."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from numba import njit
from numba.core import config

F = TypeVar("F", bound=Callable[..., object])

_LIBRARY = Path(__file__).parent
_BESIDE = _LIBRARY / "planning" / "kernels" / "__pycache__"


def compiled(function: F) -> F:
    """Compile at the first call, or load what an earlier process compiled."""
    return _compile(function)


def inner(function: F) -> F:
    """The same for a function that only compiled ones call, which takes less time to compile."""
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _compile(function: F, **options: bool) -> F:
    """numba by itself does not notice when a function called from another file has changed, so
    machine code is kept in a folder named after the text of all of them."""
    folder = _folder()
    before = config.CACHE_DIR
    config.CACHE_DIR = folder or before
    try:
        decorate: Any = njit(cache=folder is not None, error_model="numpy", **options)
        return decorate(function)  # type: ignore[no-any-return]
    finally:
        config.CACHE_DIR = before


@cache
def _folder() -> str | None:
    """Beside the sources, else in the user's cache; None where neither can be written."""
    digest = hashlib.sha256()
    for source in (Path(__file__), *sorted(_LIBRARY.glob("**/kernels/*.py"))):
        digest.update(source.read_bytes())
    for parent in (_BESIDE, *_users_caches()):
        folder = parent / digest.hexdigest()[:16]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return str(folder)
    return None


def _users_caches() -> tuple[Path, ...]:
    """The user's cache; nothing for a user without a home."""
    if given := os.environ.get("XDG_CACHE_HOME"):
        return (Path(given) / "mlfabric",)
    try:
        return (Path.home() / ".cache" / "mlfabric",)
    except RuntimeError:
        return ()
