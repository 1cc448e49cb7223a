"""One sampler on one corpus, alone in a process: SAMPLER CORPUS TOPICS SWEEPS SEED; prints JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.paths import CACHE
from workloads.cache import open_array
from workloads.plda import Plda
from workloads.plda.documents import Documents, shard

ALPHA, BETA = 0.1, 0.01
MINIBATCH_TOKENS = 40_000


class Sampled(NamedTuple):
    """Seconds of all sweeps, and counts int64 of (document, topic) and (word, topic)."""

    seconds: float
    by_document: NDArray[np.int64]
    by_word: NDArray[np.int64]


def main(arguments: Sequence[str]) -> None:
    """Measure and print."""
    sampler, corpus = arguments[:2]
    topics, sweeps, seed = map(int, arguments[2:])
    plda = _workload(corpus, topics, seed)
    plda.prepare()
    documents = shard(plda.prepared_dir, seed, 0, 1)
    sampled = SAMPLERS[sampler](plda, documents, sweeps)
    tokens = documents.words.size
    told = {
        "tokens": tokens,
        "tokens_per_s": tokens * sweeps / sampled.seconds,
        "memory_bytes": _peak_bytes(),
    }
    print(json.dumps({**told, "loglik_per_token": loglik(documents, sampled)}))


def _workload(corpus: Any, topics: int, seed: int) -> Plda:
    return Plda(
        name=f"plda_{corpus}",
        corpus=corpus,
        min_word_count=10 if corpus == "sotu" else 1,
        heldout_fraction=0.1,
        topics=topics,
        alpha=ALPHA,
        beta=BETA,
        minibatch_tokens=MINIBATCH_TOKENS,
        fold_in_sweeps=1,
        seed=seed,
        cache_dir=CACHE,
    )


def _ours(plda: Plda, documents: Documents, sweeps: int) -> Sampled:
    trainer, model = plda.trainer(0, 1), plda.initial_model()
    trainer.warm_up()
    trainer.load()
    begun = time.perf_counter()
    for _ in range(sweeps * trainer.minibatches):
        indices, values = trainer.compute(model)
        model[indices] += values
    seconds = time.perf_counter() - begun
    by_word = model[: -plda.topics].reshape(-1, plda.topics)
    by_document = _by_document(documents, trainer.assigned, plda.topics)
    return Sampled(seconds, by_document, by_word.astype(np.int64))


def _tomotopy(plda: Plda, documents: Documents, sweeps: int) -> Sampled:
    import tomotopy

    model = tomotopy.LDAModel(
        tw=tomotopy.TermWeight.ONE, k=plda.topics, alpha=ALPHA, eta=BETA, seed=plda.seed
    )
    vocabulary = [str(word) for word in open_array(plda.prepared_dir, "vocabulary")]
    kept = [index for index in range(len(documents.ids)) if np.diff(documents.starts)[index] > 0]
    for index in kept:
        begin, end = documents.starts[index : index + 2]
        model.add_doc([vocabulary[word] for word in documents.words[begin:end]])
    model.optim_interval = 0
    model.burn_in = 0
    model.train(0)
    begun = time.perf_counter()
    model.train(sweeps, workers=1)
    seconds = time.perf_counter() - begun
    places = {word: number for number, word in enumerate(vocabulary)}
    own = np.array([places[word] for word in model.used_vocabs])
    by_word = np.zeros((len(vocabulary), plda.topics), np.int64)
    by_document = np.zeros((len(documents.ids), plda.topics), np.int64)
    for index, document in zip(kept, model.docs, strict=True):
        np.add.at(by_document[index], document.topics, 1)
        np.add.at(by_word, (own[document.words], document.topics), 1)
    return Sampled(seconds, by_document, by_word)


def _lda(plda: Plda, documents: Documents, sweeps: int) -> Sampled:
    import lda

    words = len(open_array(plda.prepared_dir, "vocabulary"))
    table = np.zeros((len(documents.ids), words), np.int32)
    np.add.at(table, (_owners(documents), documents.words), 1)
    model = lda.LDA(
        plda.topics, n_iter=sweeps, alpha=ALPHA, eta=BETA, random_state=plda.seed, refresh=1 << 30
    )
    begun = time.perf_counter()
    model.fit(table)
    seconds = time.perf_counter() - begun
    return Sampled(seconds, model.ndz_.astype(np.int64), model.nzw_.T.astype(np.int64))


def loglik(documents: Documents, sampled: Sampled) -> float:
    """Mean log p of a training token in nats, from smoothed counts."""
    by_word = sampled.by_word + BETA
    phi = by_word / by_word.sum(axis=0)
    theta = sampled.by_document + ALPHA
    theta = theta / theta.sum(axis=1, keepdims=True)
    total = 0.0
    for index in range(len(documents.ids)):
        begin, end = documents.starts[index : index + 2]
        total += float(np.log(phi[documents.words[begin:end]] @ theta[index]).sum())
    return total / documents.words.size


def _by_document(
    documents: Documents, assigned: NDArray[np.int32], topics: int
) -> NDArray[np.int64]:
    cells = _owners(documents) * topics + assigned
    counted = np.bincount(cells, minlength=len(documents.ids) * topics)
    return counted.reshape(-1, topics)


def _owners(documents: Documents) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(documents.ids)), np.diff(documents.starts))


def _peak_bytes() -> int:
    """Peak resident memory of this program alone; getrusage remembers whoever started it."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


SAMPLERS: dict[str, Callable[[Plda, Documents, int], Sampled]] = {
    "ours": _ours,
    "tomotopy": _tomotopy,
    "lda": _lda,
}

if __name__ == "__main__":
    main(sys.argv[1:])
