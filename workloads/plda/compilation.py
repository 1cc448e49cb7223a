"""Where numba keeps machine code, and compiling everything before a clock runs."""

from __future__ import annotations

import hashlib
import os
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np

from workloads.plda.documents import Documents, visits


def load_kernels(cache_dir: Path, module: str = "kernels") -> ModuleType:
    """Import kernels, or those of reading; numba caches under `cache_dir`, unless NUMBA_CACHE_DIR
    is set.

    numba looks for the folder when a function is decorated, hence the import in here: a default
    beside the source would fail in an installation that cannot be written. Of a function's sources
    it looks at its own file alone, so the folder's name stands for all files of compiled code.
    """
    from numba.core import config

    folder = Path(os.environ.get("NUMBA_CACHE_DIR", cache_dir / "numba"))
    before, config.CACHE_DIR = config.CACHE_DIR, str(folder / _digest())
    try:
        return import_module(f"workloads.plda.{module}")
    finally:
        config.CACHE_DIR = before


def _digest() -> str:
    """Eight hex digits that change with any file of compiled code."""
    here = Path(__file__).parent
    sources = [here / "vectors.py", *sorted(here.glob("*kernels.py"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:8]


def compile_kernels(kernels: ModuleType, topics: int) -> None:
    """Run every kernel of sampling once on a made-up document, with the dtypes of real calls."""
    ids, starts = np.zeros(1, np.int32), np.array([0, 2], np.int64)
    words, state = np.zeros(2, np.int32), np.ones(1, np.uint64)
    alpha, beta = np.float32(0.1), np.float32(0.01)
    assigned = kernels.initial_topics(ids, starts, np.uint64(1), topics)
    totals = np.bincount(assigned, minlength=topics).astype(np.int32)
    seen = visits(Documents(ids, words, starts), 0, 1)
    table = totals.reshape(1, -1).copy()
    table.flags.writeable = False
    changes = np.empty((2, 4), np.int32)
    kernels.gibbs_pass(starts, 0, 1, *seen, assigned, table, totals, alpha, beta, state, *changes)
    phi = np.ones((1, kernels.vectors.whole(topics)), np.float32)
    kernels.completion_loglik(words, starts, phi, topics, alpha, 2, state)
