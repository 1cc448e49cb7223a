"""Plan one batch: python -m mlfabric.plan [FILE] [--plot OUT.png] [--exact]."""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from mlfabric.errors import SettingError

REFUSED = 2
INTERRUPTED = 130

Draw = Callable[[Any, dict[str, Any]], None]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingError(message)


def main(argv: Sequence[str] | None = None, stdin: BinaryIO | None = None) -> int:
    """Write the answer to standard output; a bad input is one line on standard error."""
    try:
        print(_answer(_arguments(argv), stdin or sys.stdin.buffer), flush=True)
    except SettingError as error:
        print(" ".join(str(error).splitlines()), file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(prog="python -m mlfabric.plan", description="Plan one batch of updates.")
    parser.add_argument("file", nargs="?", default="-", help="JSON input; standard input if none")
    parser.add_argument("--plot", type=Path, metavar="OUT.png", help="draw the plan's Gantt chart")
    parser.add_argument("--exact", action="store_true", help="add the optimum of small inputs")
    return parser.parse_args(argv)


def _answer(arguments: argparse.Namespace, stdin: BinaryIO) -> str:
    draw = _plotter(arguments.plot) if arguments.plot else None
    with _needs("the planner", "plan"):
        from mlfabric.plan.reading import parse, read_bytes
        from mlfabric.plan.solving import solve
        from mlfabric.plan.writing import text
    problem = parse(read_bytes(arguments.file, stdin))
    with _stray_output_on_stderr() if arguments.exact else nullcontext():
        answer = solve(problem, exact=arguments.exact)
    if draw:
        draw(problem, answer)
    return text(answer)


def _plotter(path: Path) -> Draw:
    """What draws a plan to `path`; SettingError where it could not."""
    with _needs("--plot", "plot"):
        from mlfabric.plan.gantt import FORMATS, save
    if path.suffix.lower() not in FORMATS:
        raise SettingError(f"--plot: {path}: must end in {', '.join(FORMATS)}")
    _refuse_unwritable(path)

    def draw(problem: Any, answer: dict[str, Any]) -> None:
        try:
            save(problem, answer, path)
        except OSError as error:
            raise SettingError(f"--plot: {path}: {error.strerror}") from None

    return draw


def _refuse_unwritable(path: Path) -> None:
    """Try to write, as no look at permissions tells for sure, and leave no trace of it."""
    existed = path.exists()
    try:
        path.open("ab").close()
    except OSError as error:
        raise SettingError(f"--plot: {path}: {error.strerror}") from None
    if not existed:
        path.unlink()


@contextmanager
def _stray_output_on_stderr() -> Iterator[None]:
    """HiGHS may print: what C code writes to standard output is no part of the answer."""
    flush = ctypes.CDLL(None).fflush
    kept = os.dup(1)
    flush(None)
    os.dup2(2, 1)
    try:
        yield
    finally:
        flush(None)  # in a pipe, C holds its output back
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def _needs(what: str, extra: str) -> Iterator[None]:
    """Tell in one line which extra has the package that an import inside does not find."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "mlfabric").startswith("mlfabric"):
            raise
        missing = f"{error.name} is not installed; pip install 'mlfabric[{extra}]'"
        raise SettingError(f"{what}: {missing}") from None


if __name__ == "__main__":
    sys.exit(main())
