"""Documents as one array of word ids and one of offsets: reading, dividing, gathering."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workloads.cache import open_array
from workloads.seeds import SPLIT_SEED, Purpose, generator

_TOKENS_AT_ONCE = 1 << 20


class Documents(NamedTuple):
    """Some documents of a corpus: `words[starts[i]:starts[i + 1]]` is document `ids[i]`."""

    ids: NDArray[np.int32]
    words: NDArray[np.int32]
    starts: NDArray[np.int64]


class Visits(NamedTuple):
    """The tokens of a minibatch word by word.

    `order[groups[g]:groups[g + 1]]`, int64, are the places of all tokens of word `words[g]`.
    """

    order: NDArray[np.int64]
    groups: NDArray[np.int64]
    words: NDArray[np.int32]


def read_documents(folder: Path, ids: NDArray[np.int32]) -> Documents:
    """Copy documents of the prepared corpus in the given order; memory for these alone."""
    words = open_array(folder, "words")
    offsets = open_array(folder, "offsets")
    begins = offsets[ids]
    starts = np.concatenate(([0], np.cumsum(offsets[ids + 1] - begins)))
    gathered = np.empty(starts[-1], np.int32)
    for first, last in _pieces(starts):
        lengths = np.diff(starts[first : last + 1])
        inside = np.arange(starts[last] - starts[first]) - np.repeat(
            starts[first:last] - starts[first], lengths
        )
        gathered[starts[first] : starts[last]] = words[
            np.repeat(begins[first:last], lengths) + inside
        ]
    return Documents(ids, gathered, starts)


def _pieces(starts: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Runs of documents of about as many tokens as are gathered at once."""
    return list(pairwise(minibatch_bounds(starts, _TOKENS_AT_ONCE).tolist()))


def split(documents: int, heldout_fraction: float) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(held out, to train on): sorted document numbers, the same whatever the seed of a run."""
    order = generator(SPLIT_SEED, Purpose.SPLIT).permutation(documents).astype(np.int32)
    heldout = max(1, round(documents * heldout_fraction))
    return np.sort(order[:heldout]), np.sort(order[heldout:])


def shard(folder: Path, seed: int, worker: int, workers: int) -> Documents:
    """Return one worker's training documents, in the order in which it visits them.

    A seeded permutation is cut where the running count of tokens passes each worker's equal share,
    so that workers differ by at most a document's tokens.
    """
    train = open_array(folder, "train_documents")
    offsets = open_array(folder, "offsets")
    order = generator(seed, Purpose.SHARD).permutation(np.asarray(train))
    lengths = offsets[order + 1] - offsets[order]
    before = np.cumsum(lengths) - lengths
    owner = before * workers // max(1, int(lengths.sum()))
    return read_documents(folder, order[owner == worker])


def minibatch_bounds(
    starts: NDArray[np.int64], minibatch_tokens: int, most_documents: int | None = None
) -> NDArray[np.int64]:
    """Cut documents into runs of about `minibatch_tokens` tokens each, `most_documents` at most.

    Returns the first document of every run and the number of documents: int64[runs + 1], strictly
    increasing. A shard that is not empty has at least one run.
    """
    runs = max(1, round(int(starts[-1]) / minibatch_tokens))
    targets = np.arange(1, runs) * starts[-1] / runs
    inner = np.searchsorted(starts, targets)
    bounds = np.unique(np.concatenate(([0], inner, [starts.size - 1])))
    if most_documents is None:
        return bounds
    further = [np.arange(*run, most_documents) for run in pairwise(bounds)]
    return np.unique(np.concatenate([bounds, *further]))


def visits(documents: Documents, first: int, last: int) -> Visits:
    """The tokens of documents first..last-1, grouped by word, words rising."""
    base = documents.starts[first]
    words = documents.words[base : documents.starts[last]]
    order = np.argsort(words, kind="stable")
    ordered = words[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=np.int32(-1)))
    groups = np.concatenate((begins, [words.size])).astype(np.int64)
    return Visits(order + base, groups, ordered[begins])
