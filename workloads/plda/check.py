"""`python -m workloads.plda.check FOLDER`: whether a bag of words can be read, to its last line."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from workloads.cache import open_array
from workloads.checking import run_check
from workloads.plda.corpora import uci
from workloads.progress import Ticker


def main(arguments: Sequence[str]) -> int:
    """Read the two files of the folder that is the one argument; 0 when they are sound."""
    return run_check("workloads.plda.check", arguments, _check)


def _check(folder: Path) -> int:
    with tempfile.TemporaryDirectory() as staging:
        print(_told(folder, Path(staging)))
    return 0


def _told(folder: Path, staging: Path) -> str:
    source = uci.find(folder)
    uci.fill(staging, source, staging, 0.5, Ticker())
    documents = len(open_array(staging, "offsets")) - 1
    tokens, words = (len(open_array(staging, name)) for name in ("words", "vocabulary"))
    notes = (staging / "notes.txt").read_text(encoding="utf-8")
    return f"{notes}{source.docword}: {documents} documents, {words} words, {tokens} tokens: sound"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
