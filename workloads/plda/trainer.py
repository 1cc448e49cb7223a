"""One worker of PLDA: its documents, the topics of their tokens, and the deltas they cause."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workloads.base import WorkloadError
from workloads.plda.compilation import compile_kernels, load_kernels
from workloads.plda.documents import Visits, minibatch_bounds, shard, visits
from workloads.seeds import Purpose, key64

if TYPE_CHECKING:
    from workloads.plda.workload import Plda


MOST_ROW_BYTES = 1 << 28
"""A minibatch holds no more documents than whose topic counts, 4 K bytes each, take so much."""


class PldaTrainer:
    """Samples one minibatch of documents a call, against the worker's view, which is left alone.

    Topics of tokens, `assigned` int32[tokens], stay here; a document's topic counts are rebuilt
    from them when it is visited. After so many calls as there are `minibatches` it starts again.
    """

    def __init__(self, workload: Plda, worker: int, workers: int) -> None:
        self._workload = workload
        self._worker = worker
        self._workers = workers
        self._kernels = load_kernels(workload.cache_dir)
        self._state = np.array([key64(workload.seed, Purpose.SAMPLING, worker)], np.uint64)
        self._visits: dict[int, Visits] = {}

    def warm_up(self) -> None:
        """Compile, or load from numba's cache, every kernel."""
        compile_kernels(self._kernels, self._workload.topics)

    def load(self) -> None:
        """Read this worker's documents and regenerate the initial topics of their tokens."""
        settings = self._workload
        self._documents = shard(settings.prepared_dir, settings.seed, self._worker, self._workers)
        ids, _, starts = self._documents
        if not starts[-1]:
            raise WorkloadError(
                f"cluster.workers={self._workers}: must be fewer, as worker {self._worker} has no"
                f" document of {settings.name}"
            )
        key = key64(settings.seed, Purpose.INITIAL_MODEL)
        self.assigned = self._kernels.initial_topics(ids, starts, key, settings.topics)
        most = max(1, MOST_ROW_BYTES // (4 * settings.topics))
        bounds = minibatch_bounds(starts, settings.minibatch_tokens, most)
        self.minibatches = len(bounds) - 1
        self._cuts = list(pairwise(bounds))
        self._next = 0

    def compute(self, view: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Resample the next minibatch; return the change of the counts.

        `view` int32[(W + 1) * K] must hold this worker's own tokens as it left them; others' may be
        in the totals and not yet in the words, or the reverse, with several servers. Returns
        (indices int32 strictly increasing, values int32 without zeros), totals included; the values
        add up to zero over the word part and over the totals.
        """
        settings, (first, last) = self._workload, self._cuts[self._next]
        self._next = (self._next + 1) % self.minibatches
        seen = self._seen(first, last)
        cells = view.size - settings.topics
        table = view[:cells].reshape(-1, settings.topics)
        table.flags.writeable = False  # the kernel was compiled for such a one
        totals = view[cells:].copy()
        changes = np.empty((2, 2 * seen.order.size), np.int32)
        count = self._kernels.gibbs_pass(
            self._documents.starts,
            first,
            last,
            *seen,
            self.assigned,
            table,
            totals,
            np.float32(settings.alpha),
            np.float32(settings.beta),
            self._state,
            *changes,
        )
        moved = np.flatnonzero(totals != view[cells:])
        indices = np.concatenate((changes[0, :count], (cells + moved).astype(np.int32)))
        return indices, np.concatenate((changes[1, :count], (totals - view[cells:])[moved]))

    def state(self) -> Any:
        """Topics of tokens, the sampler's random state, and which minibatch is next."""
        return self.assigned.copy(), self._state.copy(), self._next

    def restore(self, state: Any) -> None:
        """Go on from there."""
        assigned, random, self._next = state
        self.assigned[:], self._state[:] = assigned, random

    def _seen(self, first: int, last: int) -> Visits:
        """How a minibatch is visited: worked out at its first visit, and kept."""
        if first not in self._visits:
            self._visits[first] = visits(self._documents, first, last)
        return self._visits[first]
