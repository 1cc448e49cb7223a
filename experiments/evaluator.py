"""The evaluator as its run sees it: a child process that must not fail unnoticed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from experiments.errors import RunFailed
from experiments.evaluate import NO_DATA
from experiments.mpiexec import ONE_THREAD
from experiments.paths import ROOT
from mlfabric.emulation.namespaces import die_with_parent


class EvaluatorProcess:
    """`python -m experiments.evaluate` on a run, killed when left or when this process dies."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._log = run_dir / "evaluator.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "experiments.evaluate", str(run_dir)],
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": _import_path()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C of the terminal is ours to handle
                preexec_fn=lambda: die_with_parent(signal.SIGKILL),
            )

    def __enter__(self) -> EvaluatorProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()

    def running(self) -> bool:
        """Whether it is still at work; raises RunFailed if it ended badly."""
        status = self._process.poll()
        if status is None:
            return True
        if status != 0:
            lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            last = lines[-1] if lines else "no output"
            if status == NO_DATA:
                raise RunFailed(last)
            if status == -signal.SIGKILL:
                raise RunFailed("the evaluator was killed by SIGKILL, as where memory runs out")
            raise RunFailed(f"the evaluator ended with status {status}: {last} (see {self._log})")
        return False

    def told(self) -> str:
        """The last line that it printed, such as how far it is; "" before the first."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1] if lines else ""

    def finish(self) -> None:
        """Tell it that no more snapshots will come."""
        (self._run_dir / "snapshots").mkdir(exist_ok=True)
        (self._run_dir / "snapshots" / "complete").touch()


def _import_path() -> str:
    inherited = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(ROOT), *([inherited] if inherited else [])])
