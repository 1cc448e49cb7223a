"""Independent random streams: one for each seed, purpose and worker, the same every time."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

SPLIT_SEED = 1789
"""Seed of every held-out split: fixed, so that all runs are scored on the same data."""


class Purpose(IntEnum):
    """What a random stream is for; the numbers are part of what makes a run repeatable."""

    SPLIT = 1
    INITIAL_MODEL = 2
    SHARD = 3
    ORDER = 4
    SAMPLING = 5
    EVALUATION = 6
    SYNTHETIC = 7
    AUGMENTATION = 8


def generator(seed: int, purpose: Purpose, *keys: int) -> np.random.Generator:
    """Return the generator of (seed, purpose, keys); `keys` usually holds the worker."""
    return np.random.default_rng(np.random.SeedSequence([seed, int(purpose), *keys]))


def key64(seed: int, purpose: Purpose, *keys: int) -> np.uint64:
    """Return 64 random bits of (seed, purpose, keys), to seed a generator of numba or torch."""
    sequence = np.random.SeedSequence([seed, int(purpose), *keys])
    return np.uint64(sequence.generate_state(1, np.uint64)[0])
