"""Held-out log-likelihood per token by document completion."""

from __future__ import annotations

import math
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

TOP_WORDS = 12


class PldaEvaluator:
    """Folds in the first half of held-out documents with phi fixed and scores the second."""

    def __init__(self, workload: Plda) -> None:
        self._workload = workload
        self._kernels = load_kernels(workload.cache_dir)
        heldout = np.array(open_array(workload.prepared_dir, "heldout_documents"))
        self._documents = read_documents(workload.prepared_dir, heldout)

    def evaluate(self, model: NDArray[np.int32]) -> dict[str, float]:
        """Return "heldout_loglik", the mean log p of a token in nats, and "heldout_perplexity".

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
            settings.topics,
            np.float32(settings.alpha),
            settings.fold_in_sweeps,
            state,
        )
        per_token = loglik / scored
        return {"heldout_loglik": per_token, "heldout_perplexity": math.exp(-per_token)}

    def report(self, model: NDArray[np.int32]) -> dict[str, str]:
        """Return {"topics.txt": a line for each topic, largest first: its share, its top words}."""
        counts = model[: -self._workload.topics].reshape(-1, self._workload.topics)
        vocabulary = open_array(self._workload.prepared_dir, "vocabulary")
        return {"topics.txt": describe_topics(counts, vocabulary)}

    def _phi(self, model: NDArray[np.int32]) -> NDArray[np.float32]:
        topics, beta = self._workload.topics, np.float32(self._workload.beta)
        counts = model[:-topics].reshape(-1, topics)
        # Of several servers' shards, the model's own totals may be those of another version.
        totals = counts.sum(axis=0).astype(np.float32) + np.float32(counts.shape[0]) * beta
        phi = np.zeros((counts.shape[0], self._kernels.vectors.whole(topics)), np.float32)
        np.add(counts, beta, out=phi[:, :topics])
        phi[:, :topics] /= totals
        return phi


def describe_topics(counts: NDArray[np.int32], vocabulary: NDArray[np.str_]) -> str:
    """One line a topic, by falling size: percent of the tokens, then its most frequent words.

    `counts` is int32[words, topics].
    """
    sizes = counts.sum(axis=0, dtype=np.int64)
    lines = []
    for topic in np.argsort(-sizes, kind="stable"):
        top = np.argsort(-counts[:, topic], kind="stable")[:TOP_WORDS]
        words = " ".join(str(vocabulary[word]) for word in top if counts[word, topic] > 0)
        lines.append(f"{100 * sizes[topic] / max(1, sizes.sum()):5.1f} %  {words}")
    return "\n".join(lines) + "\n"
