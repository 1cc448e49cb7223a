"""Held-out log-likelihood per token by document completion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from workloads.base import WorkloadError
from workloads.cache import open_array
from workloads.plda.compilation import load_kernels
from workloads.plda.documents import read_documents
from workloads.seeds import Purpose, key64

if TYPE_CHECKING:
    from workloads.plda.workload import Plda


class PldaEvaluator:
    """Folds in the first half of held-out documents with phi fixed and scores the second."""

    def __init__(self, workload: Plda) -> None:
        self._workload = workload
        self._kernels = load_kernels(workload.cache_dir)
        heldout = np.array(open_array(workload.data_dir, "heldout_documents"))
        self._documents = read_documents(workload.data_dir, heldout)

    def evaluate(self, model: NDArray[np.int32]) -> dict[str, float]:
        """Return {"heldout_loglik": mean log p of a token, in nats}.

        Raises WorkloadError when a count is negative: a delta was lost or applied twice.
        """
        if model.min() < 0:
            raise WorkloadError(
                f"{self._workload.name}: the model holds a negative count ({model.min()} at index "
                f"{model.argmin()}): a delta was lost or applied twice"
            )
        settings = self._workload
        state = np.array([key64(settings.seed, Purpose.EVALUATION)], np.uint64)
        loglik, scored = self._kernels.completion_loglik(
            self._documents.words,
            self._documents.starts,
            self._phi(model),
            np.float32(settings.alpha),
            settings.fold_in_sweeps,
            state,
        )
        return {"heldout_loglik": loglik / scored}

    def _phi(self, model: NDArray[np.int32]) -> NDArray[np.float32]:
        topics, beta = self._workload.topics, np.float32(self._workload.beta)
        counts = model[:-topics].reshape(-1, topics)
        # Of several servers' shards, the model's own totals may be those of another version.
        totals = counts.sum(axis=0).astype(np.float32) + np.float32(counts.shape[0]) * beta
        return np.asarray((counts.astype(np.float32) + beta) / totals, dtype=np.float32)
