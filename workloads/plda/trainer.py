"""One worker of PLDA: its documents, the topics of their tokens, and the deltas they cause."""

from __future__ import annotations

from itertools import cycle, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from workloads.plda.compilation import compile_kernels, load_kernels
from workloads.plda.documents import minibatch_bounds, shard
from workloads.seeds import Purpose, key64

if TYPE_CHECKING:
    from workloads.plda.workload import Plda


class PldaTrainer:
    """Samples one minibatch of documents a call, against a scratch copy of the worker's view.

    Topics of tokens stay here; a document's topic counts are rebuilt from them when it is visited.
    """

    def __init__(self, workload: Plda, worker: int, workers: int) -> None:
        self._workload = workload
        self._worker = worker
        self._workers = workers
        self._kernels = load_kernels(workload.cache_dir)
        self._state = np.array([key64(workload.seed, Purpose.SAMPLING, worker)], np.uint64)
        self._scratch = np.empty(0, np.int32)

    def warm_up(self) -> None:
        """Compile, or load from numba's cache, every kernel."""
        compile_kernels(self._kernels, self._workload.topics)

    def load(self) -> None:
        """Read this worker's documents and regenerate the initial topics of their tokens."""
        settings = self._workload
        self._documents = shard(settings.data_dir, settings.seed, self._worker, self._workers)
        ids, _, starts = self._documents
        key = key64(settings.seed, Purpose.INITIAL_MODEL)
        self._assigned = self._kernels.initial_topics(ids, starts, key, settings.topics)
        self._minibatches = cycle(pairwise(minibatch_bounds(starts, settings.minibatch_tokens)))

    def compute(self, view: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Resample the next minibatch; return the change of the counts.

        `view` int32[(W + 1) * K] must hold this worker's own tokens as it left them; others' may be
        in the totals and not yet in the words, or the reverse, with several servers. Returns
        (indices int32 strictly increasing, values int32 without zeros), totals included; the values
        add up to zero over the word part and over the totals.
        """
        if self._scratch.size != view.size:
            self._scratch = np.empty_like(view)
        scratch, settings = self._scratch, self._workload
        np.copyto(scratch, view)
        cells = view.size - settings.topics
        first, last = next(self._minibatches)
        self._kernels.gibbs_pass(
            self._documents.words,
            self._documents.starts,
            first,
            last,
            self._assigned,
            scratch[:cells].reshape(-1, settings.topics),
            scratch[cells:],
            np.float32(settings.alpha),
            np.float32(settings.beta),
            self._state,
        )
        changed = np.flatnonzero(scratch != view).astype(np.int32)
        return changed, scratch[changed] - view[changed]
