"""Documents as one array of word ids and one of offsets: reading, dividing, gathering."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workloads.cache import open_array
from workloads.seeds import Purpose, generator


class Documents(NamedTuple):
    """Some documents of a corpus: `words[starts[i]:starts[i + 1]]` is document `ids[i]`."""

    ids: NDArray[np.int32]
    words: NDArray[np.int32]
    starts: NDArray[np.int64]


def read_documents(folder: Path, ids: NDArray[np.int32]) -> Documents:
    """Gather documents of the prepared corpus in the given order."""
    words = open_array(folder, "words")
    offsets = open_array(folder, "offsets")
    lengths = offsets[ids + 1] - offsets[ids]
    starts = np.concatenate(([0], np.cumsum(lengths)))
    positions = np.repeat(offsets[ids] - starts[:-1], lengths) + np.arange(starts[-1])
    return Documents(ids, np.ascontiguousarray(words[positions]), starts)


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


def minibatch_bounds(starts: NDArray[np.int64], minibatch_tokens: int) -> NDArray[np.int64]:
    """Cut documents into runs of about `minibatch_tokens` tokens each.

    Returns the first document of every run and the number of documents: int64[runs + 1], strictly
    increasing. A shard that is not empty has at least one run.
    """
    runs = max(1, round(int(starts[-1]) / minibatch_tokens))
    targets = np.arange(1, runs) * starts[-1] / runs
    inner = np.searchsorted(starts, targets)
    return np.unique(np.concatenate(([0], inner, [starts.size - 1])))
