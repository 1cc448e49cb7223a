"""Bags of words as the UCI repository has them, NYTimes among them: docword.*.txt and vocab.*.txt.

Three lines of header (documents D, words W, entries NNZ), then a line "document word count" for
each pair that occurs; ids from 1. Either file may be compressed by gzip (.gz). What is read is
written at once, so that a corpus of any size takes the memory of some blocks of text.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workloads.base import WorkloadError
from workloads.cache import GrowingArray, save_arrays
from workloads.plda.compilation import load_kernels
from workloads.plda.corpora.text import Reading, shown, whole_lines
from workloads.plda.documents import split
from workloads.seeds import SPLIT_SEED, Purpose, key64

MOST_ENTRIES = 2**31 - 1
MOST_COUNT = 1_000_000
MOST_TOKENS = 100_000_000
"""Of one document; NYTimes has as many in all."""

TOKENS_AT_ONCE = 4_000_000
LONGEST_WORD = 100
_NUMBER = re.compile(rb"[0-9]{1,12}")

Tell = Callable[[str], None]


class Header(NamedTuple):
    """What the first three lines announce."""

    documents: int
    words: int
    entries: int


class Entries(NamedTuple):
    """Some lines, whole documents only: int32 arrays, word ids from 0."""

    documents: NDArray[np.int32]
    words: NDArray[np.int32]
    counts: NDArray[np.int32]


@dataclass(frozen=True)
class Source:
    """The two files of a corpus."""

    docword: Path
    vocabulary: Path


def find(folder: Path) -> Source:
    """The files in a folder; raises WorkloadError unless there is one of each."""
    return Source(_only(folder, "docword"), _only(folder, "vocab"))


def _only(folder: Path, kind: str) -> Path:
    try:
        names = os.listdir(folder)
    except OSError as error:
        told = f"must be a folder that can be read ({error.strerror})"
        raise WorkloadError(f"{folder}: {told}") from None
    wanted = re.compile(rf"{kind}\..*\.txt(\.gz)?")
    found = sorted(folder / name for name in names if wanted.fullmatch(name))
    found = [path for path in found if path.is_file()]
    if len(found) == 1:
        return found[0].resolve()
    what = f"{found[0].name} and {found[1].name}" if found else "none"
    raise WorkloadError(f"{folder}: must hold one file {kind}.*.txt or {kind}.*.txt.gz; has {what}")


def fill(
    staging: Path, source: Source, cache_dir: Path, heldout_fraction: float, tell: Tell
) -> None:
    """Write the prepared form of a corpus; `tell` hears how far it is.

    Raises WorkloadError, one line that names file and line, at the first thing that is wrong.
    """
    reader = _Reader(source.docword, load_kernels(cache_dir, "reading_kernels"), tell)
    vocabulary = read_vocabulary(source.vocabulary, reader.header.words)
    key = key64(SPLIT_SEED, Purpose.ORDER)
    lengths = [np.zeros(1, np.int64)]
    with GrowingArray(staging / "words.npy", np.dtype(np.int32)) as tokens:
        for entries in reader.entries():
            for piece in _pieces(entries):
                drawn = np.empty(int(piece.counts.sum(dtype=np.int64)), np.int32)
                sizes = np.empty(len(piece.documents), np.int64)
                found = reader.kernels.spread(*piece, drawn, sizes, key)
                tokens.append(drawn)
                lengths.append(sizes[:found].copy())  # not a part that keeps the whole alive
    offsets = np.cumsum(np.concatenate(lengths))
    if len(offsets) < 3:
        raise WorkloadError(
            f"{source.docword}: {len(offsets) - 1} documents hold words; must be at least 2, as one"
            " is held back"
        )
    heldout, train = split(len(offsets) - 1, heldout_fraction)
    parts = {"train_documents": train, "heldout_documents": heldout}
    save_arrays(staging, {"offsets": offsets, "vocabulary": vocabulary, **parts})
    notes = reader.notes(len(offsets) - 1)
    (staging / "notes.txt").write_text("".join(f"{note}\n" for note in notes), encoding="utf-8")


def _pieces(entries: Entries) -> Iterator[Entries]:
    """Runs of whole documents of about TOKENS_AT_ONCE tokens, so that memory is bounded."""
    tokens = np.cumsum(entries.counts, dtype=np.int64)
    ends = np.append(np.flatnonzero(np.diff(entries.documents)) + 1, len(tokens))
    wanted = np.arange(TOKENS_AT_ONCE, tokens[-1], TOKENS_AT_ONCE)
    cuts = ends[np.minimum(np.searchsorted(tokens[ends - 1], wanted), len(ends) - 1)]
    for begin, end in pairwise(np.unique([0, *cuts, len(tokens)])):
        yield Entries(*(array[begin:end] for array in entries))


def read_vocabulary(path: Path, words: int) -> NDArray[np.str_]:
    """The words, one a line; raises WorkloadError unless there are as many as announced."""
    reading, found, blank = Reading(path), list[str](), 0
    with path.open("rb") as raw:
        for block in whole_lines(reading, raw):
            for number, word in enumerate(map(bytes.strip, block.splitlines()), reading.lines + 1):
                if word and blank:
                    raise reading.wrong(blank, "blank: must be a word")
                if not word:
                    blank = blank or number
                    continue
                found.append(_decoded(reading, number, word))
            if len(found) > words:
                break
    if len(found) != words:
        many = f"{len(found)} words or more" if len(found) > words else f"{len(found)} words"
        raise reading.wrong(len(found), f"{many}; must be {words}, as W of the docword")
    return np.array(found)


def _decoded(reading: Reading, number: int, word: bytes) -> str:
    if len(word) > LONGEST_WORD:
        raise reading.wrong(number, f"{len(word)} bytes: must be a word")
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError:
        raise reading.wrong(number, f"{shown(word)}: must be text in UTF-8") from None


class _Reader:
    """Reads a docword file once, from its start to its end."""

    def __init__(self, path: Path, kernels: ModuleType, tell: Tell) -> None:
        self._reading = Reading(path)
        self._tell = tell
        self._lines = 0
        self._blank = 0
        self._returns = 0
        self._repeated = 0
        self._first_repeated = 0
        self.kernels = kernels
        self._blocks = self._read()
        begin = b""
        while begin.count(b"\n") < len(Header._fields) and (block := next(self._blocks, b"")):
            begin += block
        self.header, self._rest = self._read_header(begin)

    def entries(self) -> Iterator[Entries]:
        """All entries, some whole documents at a time."""
        left, previous, tokens = self.header.entries, 0, 0
        seen = np.zeros(self.header.words, np.int32)
        kept = Entries(*(np.empty(0, np.int32) for _ in range(3)))
        for block in self._all_blocks():
            new = self._parsed(block, left, previous)
            self._note_repeated(new, seen, block)
            self._lines += block.count(b"\n")
            self._blank += block.count(b"\n") - len(new.documents)
            self._returns += block.count(b"\r\n")
            left -= len(new.documents)
            kept = Entries(*map(np.concatenate, zip(kept, new, strict=True)))
            if not len(kept.documents):
                continue
            previous = int(kept.documents[-1])
            whole = int(np.searchsorted(kept.documents, previous))
            if whole:
                yield Entries(*(array[:whole] for array in kept))
            kept = Entries(*(array[whole:] for array in kept))
            tokens = int(kept.counts.sum(dtype=np.int64))
            if tokens > MOST_TOKENS:
                told = f"document {previous} has {tokens} tokens: must be at most {MOST_TOKENS}"
                raise self._reading.wrong(self._lines, told)
        if left:
            found = self.header.entries - left
            told = (
                f"the file ends after {found} entries; must be {self.header.entries}, as NNZ says"
            )
            raise self._reading.wrong(self._lines, told)
        if len(kept.documents):
            yield kept

    def notes(self, documents: int) -> list[str]:
        """What a reader should know of the file, though it could be read."""
        found = []
        if documents < self.header.documents:
            found.append(f"D is {self.header.documents}; {documents} documents hold words")
        if self._repeated:
            found.append(
                f"{self._repeated} entries repeat a word of their document, the first in line"
                f" {self._first_repeated}: added up"
            )
        if self._blank:
            found.append(f"{self._blank} blank lines: left out")
        if self._returns:
            found.append(f"{self._returns} lines end in CR LF: read as LF")
        return [f"{self._reading.path}: {note}" for note in found]

    def _parsed(self, block: bytes, left: int, previous: int) -> Entries:
        """The entries of a block of whole lines; raises WorkloadError for a line that is none."""
        room = min(block.count(b"\n"), left)
        new = Entries(*(np.empty(room, np.int32) for _ in range(3)))
        limits = np.array([previous, self.header.documents, self.header.words, MOST_COUNT])
        text = np.frombuffer(block, np.uint8)
        count, lines, position = self.kernels.parse_entries(text, *new, limits)
        for number, line in enumerate(block[position:].splitlines(), self._lines + lines + 1):
            if line.strip():  # blank ones may follow the last entry
                previous = int(new.documents[count - 1]) if count else previous
                raise self._complaint(number, line, previous, left == count)
        return Entries(*(array[:count] for array in new))

    def _note_repeated(self, entries: Entries, seen: NDArray[np.int32], block: bytes) -> None:
        many, first = self.kernels.first_repeated(entries.documents, entries.words, seen)
        if many and not self._repeated:
            lines = enumerate(block.splitlines(), start=self._lines + 1)
            filled = (number for number, line in lines if line.strip())
            self._first_repeated = next(itertools.islice(filled, first, None))
        self._repeated += many

    def _all_blocks(self) -> Iterator[bytes]:
        if self._rest:
            yield self._rest
        yield from self._blocks

    def _read(self) -> Iterator[bytes]:
        path = self._reading.path
        with path.open("rb") as raw:
            size = path.stat().st_size
            for block in whole_lines(self._reading, raw):
                self._tell(f"{path.name}: {raw.tell() / max(1, size):.0%} read")
                yield block

    def _read_header(self, block: bytes) -> tuple[Header, bytes]:
        numbers = []
        for name, most in (("D", MOST_ENTRIES), ("W", MOST_ENTRIES), ("NNZ", 2**62)):
            line, _, block = block.partition(b"\n")
            self._lines += 1
            self._returns += line.endswith(b"\r")
            text = line.strip()
            if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= most:
                told = f"{shown(text)}: must be {name}, an integer from 1 to {most}"
                raise self._reading.wrong(self._lines, told)
            numbers.append(int(text))
        return Header(*numbers), block

    def _complaint(self, number: int, line: bytes, previous: int, full: bool) -> WorkloadError:
        fields, header, wrong = line.split(), self.header, self._reading.wrong
        if full:
            return wrong(number, f"{shown(line)}: more than {header.entries} entries, NNZ")
        if len(fields) != 3 or not all(map(_NUMBER.fullmatch, fields)):
            told = "must be three integers: document, word, count"
            return wrong(number, f"{shown(line)}: {told}")
        limits = (
            ("document", header.documents, ", as D says"),
            ("word", header.words, ", as W says"),
            ("count", MOST_COUNT, ""),
        )
        for (name, most, why), field in zip(limits, map(int, fields), strict=True):
            if not 1 <= field <= most:
                return wrong(number, f"{name} {field}: must be 1 to {most}{why}")
        told = f"document {int(fields[0])} after document {previous}: documents must rise"
        return wrong(number, told)
