"""The workloads plda_*: counts of words and topics, shared by all workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray

from workloads.base import Count, Location, Positive, WorkloadError
from workloads.cache import mark_of, open_array, publish, publish_folder
from workloads.plda.compilation import compile_kernels, load_kernels
from workloads.plda.corpora import reuters, sotu, uci
from workloads.plda.documents import read_documents
from workloads.plda.evaluator import PldaEvaluator
from workloads.plda.trainer import PldaTrainer
from workloads.progress import Ticker
from workloads.seeds import Purpose, key64

_WORDS_AT_ONCE = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Plda:
    """Collapsed Gibbs LDA with `topics` topics; a push is one minibatch of documents.

    The model is int32[(W + 1) * topics]: counts of (word, topic), row-major by word, then the total
    of each topic. An update is the sparse change that one minibatch of documents makes.
    """

    metric_name: ClassVar[str] = "heldout_loglik"
    metric_goal: ClassVar[Literal["min", "max"]] = "max"
    conserved: ClassVar[bool] = True

    name: str
    framework: Literal["none"] = "none"
    corpus: Literal["sotu", "reuters", "uci"]
    data_dir: Annotated[str, Location()] | None = None
    min_word_count: Count = 1
    heldout_fraction: Annotated[float, Gt(0), Le(0.5)]
    topics: Annotated[int, Ge(2)]
    alpha: Positive
    beta: Positive
    minibatch_tokens: Count
    fold_in_sweeps: Count
    seed: int
    cache_dir: Path

    @property
    def data(self) -> str:
        """What the documents are."""
        if self.corpus == "uci":
            return str(uci.find(self._folder).docword)
        return {"sotu": "State of the Union addresses", "reuters": "Reuters news"}[self.corpus]

    def problem(self) -> str | None:
        """Files that are wanted and not there, or settings that this corpus has no use for."""
        if self.corpus != "sotu" and self.min_word_count != 1:
            return (
                f"workload.min_word_count={self.min_word_count}: must be 1 with"
                f" workload={self.name}, whose vocabulary is taken as it is"
            )
        if self.corpus != "uci":
            if self.data_dir is not None:
                told = "whose data come from a package"
                return (
                    f"workload.data_dir={self.data_dir}: must be null with workload={self.name},"
                    f" {told}"
                )
            return None
        if self.data_dir is None:
            return (
                "workload.data_dir=null: must be a folder with docword.nytimes.txt.gz and"
                " vocab.nytimes.txt (docs/data.md tells where they come from)"
            )
        try:
            uci.find(self._folder)
        except WorkloadError as error:
            return f"workload.data_dir={error}"
        return None

    @property
    def prepared_dir(self) -> Path:
        """The folder of prepared arrays, named after what shapes them."""
        heldout = f"heldout-{self.heldout_fraction:g}"
        if self.corpus == "sotu":
            return self.cache_dir / f"sotu-min-{self.min_word_count}-{heldout}"
        if self.corpus == "reuters":
            return self.cache_dir / f"reuters-{heldout}"
        source = uci.find(self._folder)
        mark = mark_of((source.docword, source.vocabulary))
        return self.cache_dir / f"uci-{mark}-{heldout}"

    def prepare(self) -> None:
        """Read and split the corpus and compile the sampler, each only where it is not cached.

        What was odd about the data is printed, and so is how far reading is.
        Raises WorkloadError when data are missing or malformed or the cache cannot be written.
        """
        folder = self.prepared_dir
        if self.corpus == "sotu":
            publish(folder, lambda: sotu.build(self.min_word_count, self.heldout_fraction))
        elif self.corpus == "reuters":
            publish(folder, lambda: reuters.build(self.cache_dir, self.heldout_fraction))
        else:
            publish_folder(folder, self._read_files)
            print((folder / "notes.txt").read_text(encoding="utf-8"), end="", flush=True)
        compile_kernels(load_kernels(self.cache_dir), self.topics)

    @property
    def _folder(self) -> Path:
        assert self.data_dir is not None
        return Path(self.data_dir)

    def _read_files(self, staging: Path) -> None:
        source = uci.find(self._folder)
        uci.fill(staging, source, self.cache_dir, self.heldout_fraction, Ticker())

    def initial_model(self) -> NDArray[np.int32]:
        """Return the counts of the initial topics, a function of (seed, document): int32."""
        kernels = load_kernels(self.cache_dir)
        train = np.array(open_array(self.prepared_dir, "train_documents"))
        offsets = open_array(self.prepared_dir, "offsets")
        words = open_array(self.prepared_dir, "vocabulary").size
        key = key64(self.seed, Purpose.INITIAL_MODEL)
        counts = np.zeros((words + 1) * self.topics, np.int32)
        tokens = np.cumsum(offsets[train + 1] - offsets[train])
        cuts = np.searchsorted(tokens, np.arange(0, tokens[-1], _WORDS_AT_ONCE)[1:])
        for ids in np.split(train, cuts):  # so that memory is bounded
            documents = read_documents(self.prepared_dir, ids)
            assigned = kernels.initial_topics(ids, documents.starts, key, self.topics)
            np.add.at(counts, documents.words.astype(np.int64) * self.topics + assigned, 1)
            counts[words * self.topics :] += np.bincount(assigned, minlength=self.topics)
        return counts

    def trainer(self, worker: int, workers: int) -> PldaTrainer:
        """Return the trainer of worker `worker` in 0..workers-1."""
        return PldaTrainer(self, worker, workers)

    def evaluator(self) -> PldaEvaluator:
        """Return the evaluator by document completion."""
        return PldaEvaluator(self)
