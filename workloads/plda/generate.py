"""`python -m workloads.plda.generate FOLDER`: a made-up corpus of NYTimes' shape, known topics.

Synthetic, for tests of scale: as many documents and words, words of a topic by Zipf's law times a
gamma factor of the topic's own, lengths log-normal. FOLDER gets docword.synthetic.txt.gz,
vocab.synthetic.txt and topics.npy, float32[topics, words], the true probabilities.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workloads.plda.compilation import load_kernels
from workloads.progress import Ticker
from workloads.seeds import Purpose, generator, key64

# NYTimes: about 300,000 documents, 102,660 words, 100 million tokens.
DOCUMENTS, WORDS, TOKENS = 300_000, 102_660, 100_000_000
TOPICS = 100
LENGTH_SPREAD = 0.6
"""Standard deviation of log(length) [ours]."""

TOPIC_SHAPE = 0.05
"""Shape of the gamma factor: how little of the vocabulary a topic uses [ours]."""

MIXTURE = 0.1
"""Dirichlet parameter of a document's topics [ours]."""

_DOCUMENTS_AT_ONCE = 2_000


def main(arguments: Sequence[str]) -> int:
    """Write the corpus; 2 where the folder holds one."""
    asked = _parser().parse_args(arguments)
    folder = Path(asked.folder)
    if any(folder.glob("docword.*")):
        print(f"{folder}: must be a folder without a docword file", file=sys.stderr)
        return 2
    try:
        folder.mkdir(parents=True, exist_ok=True)
        generate(folder, asked.documents, asked.words, asked.tokens, asked.topics, asked.seed)
    except OSError as error:
        print(f"{error.filename or folder}: {error.strerror}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, SystemError):  # the latter out of compiled code
        print("interrupted", file=sys.stderr)
        return 130
    print(f"{asked.documents} documents in {folder}")
    return 0


def generate(folder: Path, documents: int, words: int, tokens: int, topics: int, seed: int) -> None:
    """Write a corpus; the same text for the same numbers."""
    rng = generator(seed, Purpose.SYNTHETIC)
    truth = draw_topics(rng, topics, words)
    lengths = draw_lengths(rng, documents, tokens)
    with tempfile.TemporaryDirectory(dir=folder) as staging:
        body, whole = Path(staging) / "body.gz", Path(staging) / "whole.gz"
        with gzip.open(body, "wb", compresslevel=1) as file:
            kernels = load_kernels(Path(staging), "writing_kernels")
            cumulative = np.cumsum(truth, axis=1, dtype=np.float64).astype(np.float32)
            state = np.array([key64(seed, Purpose.SYNTHETIC)], np.uint64)
            counts, entries, tick = np.zeros(words, np.int32), 0, Ticker()
            for first in range(0, documents, _DOCUMENTS_AT_ONCE):
                some = lengths[first : first + _DOCUMENTS_AT_ONCE]
                mixtures = np.cumsum(rng.dirichlet(np.full(topics, MIXTURE), len(some)), axis=1)
                text, found = kernels.write_documents(
                    first, some, mixtures, cumulative, counts, state
                )
                file.write(text.data)
                entries += found
                tick(f"{first / documents:.0%} of {documents} documents")
        with whole.open("wb") as file, body.open("rb") as rest:
            file.write(gzip.compress(f"{documents}\n{words}\n{entries}\n".encode()))
            shutil.copyfileobj(rest, file)
        names = "".join(f"synthetic{number:06d}\n" for number in range(1, words + 1))
        (folder / "vocab.synthetic.txt").write_text(names, encoding="utf-8")
        np.save(folder / "topics.npy", truth)
        whole.rename(folder / "docword.synthetic.txt.gz")


def draw_topics(rng: np.random.Generator, topics: int, words: int) -> NDArray[np.float32]:
    """Each topic's probabilities of words, float32[topics, words]."""
    zipf = 1 / np.arange(1, words + 1)
    weights = zipf * rng.gamma(TOPIC_SHAPE, size=(topics, words))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float32)


def draw_lengths(rng: np.random.Generator, documents: int, tokens: int) -> NDArray[np.int64]:
    """Tokens of each document, at least one, about `tokens` in all: int64[documents]."""
    lengths = rng.lognormal(sigma=LENGTH_SPREAD, size=documents)
    whole = np.round(lengths * tokens / lengths.sum()).astype(np.int64)
    return np.asarray(np.maximum(1, whole))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workloads.plda.generate")
    parser.add_argument("folder")
    for name, value in (
        ("documents", DOCUMENTS),
        ("words", WORDS),
        ("tokens", TOKENS),
        ("topics", TOPICS),
    ):
        parser.add_argument(f"--{name}", type=_count, default=value, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number from 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
