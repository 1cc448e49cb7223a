"""Text files read in pieces, compressed or not, and complaints that name file and line."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from workloads.base import WorkloadError

BLOCK_BYTES = 4 << 20
COMPRESSED_BYTES = 1 << 20
LONGEST_LINE = 1000
_GZIP = 16 + zlib.MAX_WBITS


class Reading:
    """How far a file has been read: `lines` that have come whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = 0

    def wrong(self, line: int, what: str) -> WorkloadError:
        """A complaint about a line."""
        return WorkloadError(f"{self.path}, line {line}: {what}")


def whole_lines(reading: Reading, raw: BinaryIO) -> Iterator[bytes]:
    """The text of a file, some megabytes of whole lines at a time; the last one may lack its end.

    Raises WorkloadError where the text is cut off or damaged, or a line is too long to be one.
    """
    pending = b""
    with _complaining(reading):
        for block in blocks(raw, reading.path.suffix == ".gz"):
            text, end, pending = (pending + block).rpartition(b"\n")
            if end:
                yield text + end
                reading.lines += text.count(b"\n") + 1
            if len(pending) > LONGEST_LINE:
                raise reading.wrong(reading.lines + 1, f"more than {LONGEST_LINE} bytes")
        if pending:
            yield pending + b"\n"
            reading.lines += 1


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


@contextmanager
def _complaining(reading: Reading) -> Iterator[None]:
    """Turn what reading a file may raise into a line that names the file, and how far it was."""
    try:
        yield
    except EOFError:
        told = "the compressed file is cut off after this line"
        raise reading.wrong(reading.lines, told) from None
    except zlib.error as error:
        told = f"cannot be decompressed further: {str(error).rpartition(': ')[2]}"
        raise reading.wrong(reading.lines, told) from None
    except OSError as error:
        raise WorkloadError(f"{reading.path}: cannot be read: {error.strerror}") from None


def shown(text: bytes) -> str:
    """A line as a complaint shows it."""
    start = text.strip()[:60].decode("utf-8", "backslashreplace")
    return f"'{start}'" if start else "blank"
