"""`python -m experiments.evaluate RUN_DIR`: score a run's snapshots as they appear, off its clock.

A process of its own that only gets the processor when nobody else wants it. It ends when
snapshots/complete exists and every snapshot of snapshots/index.jsonl is in metrics.jsonl.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.build import build_workload
from experiments.schema import read_config
from experiments.tail import Tail

_POLL_S = 0.2


def main(arguments: list[str]) -> int:
    """Evaluate the run whose folder is the one argument."""
    run_dir = Path(arguments[0])
    _step_back()
    evaluator = build_workload(read_config(run_dir / "config.json")).evaluator()
    with (run_dir / "metrics.jsonl").open("a", encoding="utf-8") as metrics:
        for snapshot in follow(run_dir / "snapshots"):
            model = np.load(run_dir / "snapshots" / snapshot["file"], allow_pickle=False)
            scores = evaluator.evaluate(model)
            row = {"version": snapshot["version"], "elapsed_s": snapshot["elapsed_s"], **scores}
            metrics.write(json.dumps(row) + "\n")
            metrics.flush()
    return 0


def follow(folder: Path) -> Iterator[Mapping[str, Any]]:
    """The rows of index.jsonl, each as soon as its line is whole, until the folder is complete."""
    index = Tail(folder / "index.jsonl")
    while True:
        complete = (folder / "complete").exists()  # looked at first: nothing comes after it
        yield from index.rows()
        if complete:
            return
        time.sleep(_POLL_S)


def _step_back() -> None:
    """Run only on processor time that no rank wants."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except OSError:
        os.nice(19)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
