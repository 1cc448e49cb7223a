"""When the model is scored: on a grid of times, the same for every policy."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Take(Protocol):
    """Takes a snapshot; must copy what it keeps. `tick` numbers the times of the grid, None is the
    end of the run."""

    def __call__(
        self, model: NDArray[Any], version: int, elapsed_s: float, tick: int | None
    ) -> None: ...


class Snapshots:
    """Shows the model as it is at every multiple of `interval_s` at which it has changed.

    A grid, as a snapshot at the first commit after some time would round up policies that commit
    rarely. A model in `shards` parts is shown whole, its version the mean of theirs. With `steady`
    it is shown even where it has not changed.
    """

    def __init__(
        self, interval_s: float, take: Take, *, shards: int = 1, steady: bool = False
    ) -> None:
        self._interval_s = interval_s
        self._take = take
        self._shards = shards
        self._steady = steady
        self._models: dict[int, NDArray[Any]] = {}
        self._versions: dict[int, int] = {}
        self._ended: set[int] = set()
        self._taken: int | None = None
        self._looks = 0

    @property
    def due_s(self) -> float:
        """When to look next."""
        return self._looks * self._interval_s

    def offer(
        self, model: NDArray[Any], version: int, now: float, *, last: bool = False, shard: int = 0
    ) -> None:
        """This part, changed in place from now on, has this version; the first is taken at once."""
        self._models[shard], self._versions[shard] = model, version
        if last:
            self._ended.add(shard)
        if len(self._models) < self._shards:
            return
        if len(self._ended) == self._shards:
            self._look(now, last=True)
        elif self._taken is None:
            self._look(now)

    def look(self, now: float) -> None:
        """Take one if it is due."""
        if now >= self.due_s:
            self._look(now)

    def _look(self, now: float, *, last: bool = False) -> None:
        tick = max(self._looks, math.floor(now / self._interval_s))
        self._looks = tick + 1
        if len(self._models) < self._shards:
            return
        commits = sum(self._versions.values())
        if last or self._steady or commits != self._taken:
            self._taken = commits
            self._take(self._whole(), commits // self._shards, now, None if last else tick)

    def _whole(self) -> NDArray[Any]:
        if self._shards == 1:
            return next(iter(self._models.values()))
        return np.concatenate([self._models[shard] for shard in range(self._shards)])
