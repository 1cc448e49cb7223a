"""Commands that check a folder of data: one argument, one line for what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from workloads.base import WorkloadError

REFUSED, INTERRUPTED = 2, 130


def run_check(module: str, arguments: Sequence[str], check: Callable[[Path], int]) -> int:
    """The exit status of `check(folder)`; 1 where it raises, 2 where the arguments are none."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(f"usage: python -m {module} FOLDER", file=sys.stderr)
        return REFUSED
    try:
        return check(Path(arguments[0]))
    except WorkloadError as error:
        print(error, file=sys.stderr)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return 1
