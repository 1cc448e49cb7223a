"""A child of `experiments.pool`: orders in, one a line; exit status and output of each out."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from experiments.interrupts import INTERRUPTED, interrupt_once

CarryOut = Callable[[dict[str, Any]], int]


def serve(carry_out: CarryOut) -> int:
    """Answer until there is nothing more to read; returns the exit status."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print is no answer
    try:
        for line in sys.stdin:
            interrupt_once()
            status, said = _carried_out(carry_out, json.loads(line))
            print(json.dumps([status, said]), file=answers, flush=True)
            if status == INTERRUPTED:
                return INTERRUPTED
    except (KeyboardInterrupt, BrokenPipeError):  # our parent ends, or has ended
        return INTERRUPTED
    return 0


def _carried_out(carry_out: CarryOut, question: dict[str, Any]) -> tuple[int, str]:
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        status = carry_out(question)
    return status, said.getvalue()


def carry_out(question: dict[str, Any]) -> int:
    """Carry out one run; returns its exit status."""
    from experiments.execute import execute
    from experiments.run import main
    from experiments.schema import from_plain

    if question["command_line"] is not None:
        return main(question["command_line"])
    settings, run_dir = question["settings"], Path(question["run_dir"])
    run_dir.mkdir(parents=True)
    outcome = execute(from_plain(settings), run_dir)
    print(outcome)
    if outcome.details:
        print(outcome.details.rstrip())
    return {"finished": 0, "interrupted": INTERRUPTED}.get(outcome.status, 1)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until there is something to clean up
    import experiments.execute  # noqa: F401

    sys.exit(serve(carry_out))
