"""The workload plda_sotu: counts of the State of the Union corpus, shared by all workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from workloads.cache import open_array, publish
from workloads.plda.compilation import compile_kernels, load_kernels
from workloads.plda.corpus import build_corpus
from workloads.plda.documents import read_documents
from workloads.plda.evaluator import PldaEvaluator
from workloads.plda.trainer import PldaTrainer
from workloads.seeds import Purpose, key64


@dataclass(frozen=True, kw_only=True)
class Plda:
    """Collapsed Gibbs LDA with `topics` topics.

    The model is int32[(W + 1) * topics]: counts of (word, topic), row-major by word, then the total
    of each topic. An update is the sparse change that one minibatch of documents makes.
    """

    metric_name: ClassVar[str] = "heldout_loglik"
    metric_goal: ClassVar[Literal["min", "max"]] = "max"
    conserved: ClassVar[bool] = True

    name: str
    topics: int
    alpha: float
    beta: float
    minibatch_tokens: int
    heldout_fraction: float
    fold_in_sweeps: int
    seed: int
    cache_dir: Path
    min_word_count: int = 10

    @property
    def data_dir(self) -> Path:
        """The folder of prepared arrays, named after the settings that shape them."""
        split = f"min-{self.min_word_count}-heldout-{self.heldout_fraction:g}"
        return self.cache_dir / f"sotu-{split}"

    def prepare(self) -> None:
        """Tokenize and split the corpus and compile the sampler, each only where it is not cached.

        Raises WorkloadError when the package is missing or the cache folder cannot be written.
        """
        publish(self.data_dir, lambda: build_corpus(self.min_word_count, self.heldout_fraction))
        compile_kernels(load_kernels(self.cache_dir), self.topics)

    def initial_model(self) -> NDArray[np.int32]:
        """Return the counts of the initial topics, a function of (seed, document): int32."""
        kernels = load_kernels(self.cache_dir)
        train = np.array(open_array(self.data_dir, "train_documents"))
        documents = read_documents(self.data_dir, train)
        key = key64(self.seed, Purpose.INITIAL_MODEL)
        assigned = kernels.initial_topics(documents.ids, documents.starts, key, self.topics)
        words = open_array(self.data_dir, "vocabulary").size
        cells = documents.words.astype(np.int64) * self.topics + assigned
        counts = np.bincount(cells, minlength=words * self.topics)
        totals = np.bincount(assigned, minlength=self.topics)
        return np.concatenate((counts, totals)).astype(np.int32)

    def trainer(self, worker: int, workers: int) -> PldaTrainer:
        """Return the trainer of worker `worker` in 0..workers-1."""
        return PldaTrainer(self, worker, workers)

    def evaluator(self) -> PldaEvaluator:
        """Return the evaluator by document completion."""
        return PldaEvaluator(self)
