"""Snapshots of a model that several servers keep, put together tick by tick."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.sections import REPLICA
from experiments.tail import Tail
from mlfabric.payload import distance

Row = Mapping[str, Any]


class ShardedSnapshots:
    """Follows the index of every server's snapshots: rows of file, version, elapsed_s and tick.

    A server that has missed a tick is taken as it was at the one before.
    """

    def __init__(self, folder: Path, shards: int) -> None:
        self._folder = folder
        self._indexes = [Tail(folder / f"index-{shard}.jsonl") for shard in range(shards)]
        self._coming: list[deque[Row]] = [deque() for _ in range(shards)]
        self._rows: dict[int, Row] = {}
        self._commits: int | None = None

    def models(self) -> Iterator[tuple[NDArray[Any], int, float]]:
        """(model, version, elapsed_s) of every whole snapshot that has come since."""
        for coming, index in zip(self._coming, self._indexes, strict=True):
            coming.extend(index.rows())
        while all(self._coming):
            tick = min(_tick(coming[0]) for coming in self._coming)
            for shard, coming in enumerate(self._coming):
                if _tick(coming[0]) == tick:
                    self._rows[shard] = coming.popleft()
            yield from self._whole(last=tick == math.inf)

    def _whole(self, *, last: bool) -> Iterator[tuple[NDArray[Any], int, float]]:
        """The model as it is now, unless it is the same as before or not complete yet."""
        rows = [self._rows[shard] for shard in sorted(self._rows)]
        commits = sum(row["version"] for row in rows)
        if len(rows) < len(self._coming) or (commits == self._commits and not last):
            return
        self._commits = commits
        parts = [np.load(self._folder / row["file"], allow_pickle=False) for row in rows]
        yield np.concatenate(parts), commits // len(rows), max(row["elapsed_s"] for row in rows)


def distances(folder: Path) -> Iterator[dict[str, Any]]:
    """How far the replica was from the server at each tick of which both have left a snapshot.

    elapsed_s and version are the server's.
    """
    kept = {_tick(row): row for row in Tail(folder / f"index-{REPLICA}.jsonl").rows()}
    for row in Tail(folder / "index-0.jsonl").rows():
        if _tick(row) in kept and _rank(row) != _rank(kept[_tick(row)]):  # not of one promoted
            files = (row["file"], kept[_tick(row)]["file"])
            model, copy = (np.load(folder / name, allow_pickle=False) for name in files)
            told = {"elapsed_s": row["elapsed_s"], "version": row["version"]}
            yield {**told, "distance": distance(model, copy)}


def _rank(row: Row) -> str:
    """Who has taken it, from its file's name."""
    return str(row["file"]).split("-")[1]


def _tick(row: Row) -> float:
    """When it was taken; at the end of the run after all others."""
    return math.inf if row["tick"] is None else row["tick"]
