"""Files of JSON lines that runs leave: read, and cut where a run goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from experiments.errors import RecordsError

Row = Mapping[str, Any]


def read_rows(path: Path, *, whole: bool = True) -> Iterator[Row]:
    """The rows of a JSON-lines file, none if absent; raises RecordsError for a torn line.

    Unless it is to be `whole` its last line may be torn, as a rank that is killed leaves it.
    """
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield json.loads(line)
            except ValueError:
                if not whole and not line.endswith("\n"):
                    return
                raise RecordsError(f"{path}, line {number}: not a whole JSON record") from None


def keep_rows(path: Path, wanted: Callable[[Row], bool]) -> None:
    """Drop all rows of a file, where there is one, but the wanted; a torn last line goes, too."""
    if not path.exists():
        return
    kept = [json.dumps(row) + "\n" for row in read_rows(path, whole=False) if wanted(row)]
    partial = path.with_suffix(".partial")
    partial.write_text("".join(kept), encoding="utf-8")
    partial.replace(path)
