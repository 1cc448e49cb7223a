"""Bags of words as the UCI repository has them, NYTimes among them: docword.*.txt and vocab.*.txt.

Three lines of header (documents D, words W, entries NNZ), then a line "document word count" for
each pair that occurs; ids from 1. Either file may be compressed by gzip (.gz). What is read is
written at once, so that a corpus of any size takes the memory of some blocks of text.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workloads.base import WorkloadError
from workloads.cache import GrowingArray, save_arrays
from workloads.plda.compilation import load_kernels
from workloads.plda.documents import split
from workloads.seeds import SPLIT_SEED, Purpose, key64

BLOCK_BYTES = 4 << 20
COMPRESSED_BYTES = 1 << 20
MOST_ENTRIES = 2**31 - 1
MOST_COUNT = 1_000_000
LONGEST_LINE = 1000
_GZIP = 16 + zlib.MAX_WBITS
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

    def mark(self) -> str:
        """What tells these files from others, or from themselves once they have changed."""
        parts = []
        for path in (self.docword, self.vocabulary):
            found = path.stat()
            parts.append(f"{path}\n{found.st_size}\n{found.st_mtime_ns}")
        return "\n".join(parts)


def find(folder: Path) -> Source:
    """The files in a folder; raises WorkloadError unless there is one of each."""
    return Source(_only(folder, "docword"), _only(folder, "vocab"))


def _only(folder: Path, kind: str) -> Path:
    found = sorted(path for end in (".txt", ".txt.gz") for path in folder.glob(f"{kind}.*{end}"))
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
            drawn = np.empty(int(entries.counts.sum(dtype=np.int64)), np.int32)
            sizes = np.empty(len(entries.documents), np.int64)
            found = reader.kernels.spread(*entries, drawn, sizes, key)
            tokens.append(drawn)
            lengths.append(sizes[:found].copy())  # not a part that keeps the whole alive
    offsets = np.cumsum(np.concatenate(lengths))
    heldout, train = split(len(offsets) - 1, heldout_fraction)
    if not len(heldout) or not len(train):
        raise WorkloadError(
            f"{source.docword}: {len(offsets) - 1} documents hold words; must be enough to hold"
            f" {heldout_fraction:g} of them back (workload.heldout_fraction)"
        )
    parts = {"train_documents": train, "heldout_documents": heldout}
    save_arrays(staging, {"offsets": offsets, "vocabulary": vocabulary, **parts})
    notes = reader.notes(len(offsets) - 1)
    (staging / "notes.txt").write_text("".join(f"{note}\n" for note in notes), encoding="utf-8")


def read_vocabulary(path: Path, words: int) -> NDArray[np.str_]:
    """The words, one a line; raises WorkloadError unless there are as many as announced."""
    found: list[str] = []
    with _complaining(path) as line, path.open("rb") as raw:
        text = b"".join(blocks(raw, path.suffix == ".gz"))
        for number, word in enumerate(map(bytes.strip, text.splitlines()), start=1):
            line.number = number
            if not word or len(word) > LONGEST_LINE:
                shown = f"{len(word)} bytes" if word else "blank"
                raise _wrong(path, number, f"{shown}: must be a word")
            found.append(word.decode("utf-8"))
    if len(found) != words:
        raise _wrong(path, len(found), f"{len(found)} words; must be {words}, as W of the docword")
    return np.array(found)


def blocks(raw: BinaryIO, compressed: bool) -> Iterator[bytes]:
    """The text of a file, some megabytes at a time.

    All that can be decompressed comes before EOFError (cut off) or zlib.error (damaged).
    """
    if not compressed:
        yield from iter(lambda: raw.read(BLOCK_BYTES), b"")
        return
    member = zlib.decompressobj(_GZIP)
    while left := member.unused_data or raw.read(COMPRESSED_BYTES):
        if member.eof:
            member = zlib.decompressobj(_GZIP)
        while left:
            text = member.decompress(left, BLOCK_BYTES)
            left = member.unconsumed_tail
            if text:
                yield text
    if not member.eof:
        yield member.flush()
        raise EOFError


class _Reader:
    """Reads a docword file once, from its start to its end."""

    def __init__(self, path: Path, kernels: ModuleType, tell: Tell) -> None:
        self._path = path
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
        left, previous = self.header.entries, 0
        seen = np.zeros(self.header.words, np.int32)
        kept = Entries(*(np.empty(0, np.int32) for _ in range(3)))
        for block in self._all_blocks():
            room = min(block.count(b"\n"), left)
            new = Entries(*(np.empty(room, np.int32) for _ in range(3)))
            limits = np.array([previous, self.header.documents, self.header.words, MOST_COUNT])
            text = np.frombuffer(block, np.uint8)
            count, lines, position = self.kernels.parse_entries(text, *new, limits)
            if block[position:].strip():
                line = block[position:].partition(b"\n")[0]
                previous = int(new.documents[count - 1]) if count else previous
                raise self._complaint(self._lines + lines + 1, line, previous, left == count)
            new = Entries(*(array[:count] for array in new))
            self._note_repeated(new, seen, block)
            self._lines += block.count(b"\n")
            self._blank += block.count(b"\n") - count
            self._returns += block.count(b"\r\n")
            left -= count
            kept = Entries(*map(np.concatenate, zip(kept, new, strict=True)))
            if not len(kept.documents):
                continue
            previous = int(kept.documents[-1])
            whole = int(np.searchsorted(kept.documents, previous))
            if whole:
                yield Entries(*(array[:whole] for array in kept))
            kept = Entries(*(array[whole:] for array in kept))
        if left:
            found = self.header.entries - left
            raise _wrong(
                self._path,
                self._lines,
                f"the file ends after {found} entries; must be {self.header.entries}, as NNZ says",
            )
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
        return [f"{self._path}: {note}" for note in found]

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
        """Whole lines, some megabytes of them at a time."""
        size = self._path.stat().st_size
        with _complaining(self._path) as line, self._path.open("rb") as raw:
            pending = b""
            for read in blocks(raw, self._path.suffix == ".gz"):
                text, end, pending = (pending + read).rpartition(b"\n")
                if len(pending) > LONGEST_LINE:
                    at = self._lines + text.count(b"\n") + bool(end) + 1
                    raise _wrong(self._path, at, f"more than {LONGEST_LINE} bytes")
                self._tell(f"{self._path.name}: {raw.tell() / max(1, size):.0%} read")
                if end:
                    yield text + end
                line.number = self._lines
            if pending:
                yield pending + b"\n"

    def _read_header(self, block: bytes) -> tuple[Header, bytes]:
        numbers = []
        for name, most in (("D", MOST_ENTRIES), ("W", MOST_ENTRIES), ("NNZ", 2**62)):
            line, _, block = block.partition(b"\n")
            self._lines += 1
            self._returns += line.endswith(b"\r")
            text = line.strip()
            if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= most:
                raise _wrong(
                    self._path, self._lines, f"{_shown(text)}: must be {name}, an integer from 1"
                )
            numbers.append(int(text))
        return Header(*numbers), block

    def _complaint(self, number: int, line: bytes, previous: int, full: bool) -> WorkloadError:
        fields, header = line.split(), self.header
        if full:
            return _wrong(
                self._path, number, f"{_shown(line)}: more than {header.entries} entries, NNZ"
            )
        if len(fields) != 3 or not all(map(_NUMBER.fullmatch, fields)):
            told = "must be three integers: document, word, count"
            return _wrong(self._path, number, f"{_shown(line)}: {told}")
        limits = (
            ("document", header.documents, ", as D says"),
            ("word", header.words, ", as W says"),
            ("count", MOST_COUNT, ""),
        )
        for (name, most, why), field in zip(limits, map(int, fields), strict=True):
            if not 1 <= field <= most:
                return _wrong(self._path, number, f"{name} {field}: must be 1 to {most}{why}")
        return _wrong(
            self._path,
            number,
            f"document {int(fields[0])} after document {previous}: documents must rise",
        )


class _Line:
    number = 0


@contextmanager
def _complaining(path: Path) -> Iterator[_Line]:
    """Turn what reading a file may raise into a line that names the file, and how far it was."""
    line = _Line()
    try:
        yield line
    except EOFError:
        raise _wrong(path, line.number, "the compressed file is cut off after this line") from None
    except zlib.error as error:
        raise _wrong(path, line.number, f"cannot be decompressed further: {error}") from None
    except UnicodeDecodeError:
        raise _wrong(path, line.number, "must be text in UTF-8") from None
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be read: {error.strerror}") from None


def _wrong(path: Path, line: int, what: str) -> WorkloadError:
    return WorkloadError(f"{path}, line {line}: {what}")


def _shown(text: bytes) -> str:
    shown = text.strip()[:60].decode("utf-8", "backslashreplace")
    return repr(shown) if shown else "blank"
