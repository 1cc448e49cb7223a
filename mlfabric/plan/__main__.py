"""Plan one batch: python -m mlfabric.plan [FILE] [--plot OUT.png] [--exact]."""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from mlfabric.errors import SettingError

NOT_WRITTEN = 1
REFUSED = 2

Draw = Callable[[Any, dict[str, Any]], None]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingError(message)


def main(argv: Sequence[str] | None = None, stdin: BinaryIO | None = None) -> int:
    """Write the answer to standard output; a bad input is one line on standard error."""
    if sys.stdout is None:
        _tell("standard output: closed")
        return NOT_WRITTEN
    try:
        return _written(_answer(_arguments(argv), stdin or _standard_input()))
    except SettingError as error:
        _tell(str(error))
        return REFUSED


def _standard_input() -> BinaryIO | None:
    return sys.stdin.buffer if sys.stdin else None


def _tell(complaint: str) -> None:
    """One line on standard error, without what would confuse a terminal."""
    if sys.stderr is not None:
        line = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in complaint)
        print("".join(line), file=sys.stderr)


def _written(answer: str) -> int:
    try:
        print(answer, flush=True)
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # else the reader has seen enough
            _tell(f"standard output: {error.strerror}")
        # What is still to be written would fail again when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOT_WRITTEN
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(prog="python -m mlfabric.plan", description="Plan one batch of updates.")
    parser.add_argument("file", nargs="?", default="-", help="JSON input; standard input if none")
    parser.add_argument("--plot", type=Path, metavar="OUT.png", help="draw the plan's Gantt chart")
    parser.add_argument("--exact", action="store_true", help="add the optimum of small inputs")
    return parser.parse_args(argv)


def _answer(arguments: argparse.Namespace, stdin: BinaryIO | None) -> str:
    draw = _plotter(arguments.plot, arguments.file) if arguments.plot else None
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


def _plotter(path: Path, source: str) -> Draw:
    """What draws a plan to `path`; SettingError where it could not, or that is the input."""
    os.environ["MPLBACKEND"] = "agg"  # matplotlib refuses to be imported with one it has not
    with _needs("--plot", "plot"):
        from mlfabric.plan.gantt import FORMATS, save
    if path.suffix.lower() not in FORMATS:
        raise SettingError(f"--plot: {path}: must end in {', '.join(FORMATS)}")
    with suppress(OSError):
        if source != "-" and path.samefile(source):
            raise SettingError(f"--plot: {path}: must be another file than FILE")
    target = Path(os.path.realpath(path))  # a link stays one
    with _complaining_of(path):
        _try_to_write(target)

    def draw(problem: Any, answer: dict[str, Any]) -> None:
        with _complaining_of(path):
            save(problem, answer, target)

    return draw


def _try_to_write(path: Path) -> None:
    """Raise OSError where `save` would: no look at permissions tells for sure."""
    with suppress(FileNotFoundError):
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    tempfile.TemporaryFile(dir=path.parent).close()


@contextmanager
def _complaining_of(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingError(f"--plot: {path}: {error.strerror}") from None


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
    # Compiled code turns a KeyboardInterrupt into other errors, so an interrupt ends the process
    # itself; it stays ignored where the parent has had it ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main())
