"""Run what the figures need, reuse what is there, then draw: python -m experiments.reproduce."""

from __future__ import annotations

import argparse
import fcntl
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from analysis.load import finished_fingerprints
from experiments.child import run_child
from experiments.interrupts import interrupt_once
from experiments.paths import RESULTS
from experiments.plan_runs import Plan, PlannedRun, known_figures, make_plan
from experiments.planner_answers import write_answers
from experiments.run import main as run_here
from mlfabric.errors import SettingError

FIRST_GUESS_OVERHEAD_S = 15.0  # of a run, beyond its training time
INTERRUPTED = 130


@dataclass(frozen=True)
class Failure:
    """A run that was started and left no finished, valid run behind."""

    run: PlannedRun
    reason: str


class Reproduction:
    """Carries out a plan: the planner's figures, the missing runs one by one, then all figures."""

    def __init__(
        self,
        plan: Plan,
        results: Path = RESULTS,
        run: Callable[[list[str]], int] = run_here,
        draw: Callable[[Sequence[str]], int] = run_child,
    ) -> None:
        self._plan = plan
        self._runs = plan.runs()
        self._figures = [*plan.from_planner, *plan.figures]
        self._plan_file = results / plan.profile / "plan.json"
        self._run = run
        self._draw_command = draw
        self._overheads_s: list[float] = []

    def carry_out(self) -> int:
        """Exit status: 0 when every planned run is there and every figure is drawn."""
        self._plan.write(self._plan_file)
        write_answers(self._plan.from_planner, self._plan_file.parent / "plans")
        done = self._finished() if self._runs else set()
        missing = [run for run in self._runs if run.fingerprint not in done]
        if missing and self._plan.from_planner:
            self._draw(self._plan.from_planner)  # what the planner answers waits for no run
        if self._runs:
            self._announce(missing)
        failures = self._run_all(missing)
        drawn = self._draw(self._figures)
        self._report(failures)
        return 0 if drawn and not failures else 1

    def _announce(self, missing: Sequence[PlannedRun]) -> None:
        reused = len(self._runs) - len(missing)
        _say(
            f"{self._plan.profile}: {len(self._runs)} runs for {', '.join(self._plan.figures)}; "
            f"{reused} reused, {len(missing)} to do, {_duration(self._left_s(missing))}"
        )

    def _run_all(self, missing: Sequence[PlannedRun]) -> list[Failure]:
        failures = []
        for place, run in enumerate(missing):
            left = _duration(self._left_s(missing[place:]))
            _say(f"[{place + 1}/{len(missing)}] {run.label} ({left} left)")
            reason = self._run_one(run)
            if reason is not None:
                _say(f"[{place + 1}/{len(missing)}] {run.label} {reason}")
                failures.append(Failure(run, reason))
            elif _ends_repetition(missing, place):
                self._draw(self._figures)
        return failures

    def _run_one(self, run: PlannedRun) -> str | None:
        """None after a finished, valid run, else what went wrong."""
        start_s = time.monotonic()
        status = self._run(list(run.overrides))
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        if status != 0:
            return f"ended with status {status}"
        if run.fingerprint not in self._finished():
            return "left no valid run of the planned settings and code (code changed meanwhile?)"
        self._overheads_s.append(time.monotonic() - start_s - run.config.engine.max_seconds)
        return None

    def _left_s(self, runs: Sequence[PlannedRun]) -> float:
        known = self._overheads_s or [FIRST_GUESS_OVERHEAD_S]
        return sum(run.config.engine.max_seconds + sum(known) / len(known) for run in runs)

    def _finished(self) -> set[str]:
        tracking = self._runs[0].config.tracking
        wanted = {run.fingerprint for run in self._runs}
        return finished_fingerprints(tracking.uri, tracking.experiment, wanted)

    def _draw(self, figures: Sequence[str]) -> bool:
        command = [sys.executable, "-m", "analysis.draw", "--plan", str(self._plan_file)]
        return self._draw_command([*command, "--figures", ",".join(figures)]) == 0

    def _report(self, failures: Sequence[Failure]) -> None:
        if failures:
            _say(f"{len(failures)} runs failed; repeat each with:")
        for failure in failures:
            _say(f"  {failure.run.command}   # {failure.reason}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m experiments.reproduce", description=__doc__)
    parser.add_argument("--profile", default="laptop", help="smoke or laptop (default)")
    known = ",".join(known_figures())
    parser.add_argument("--figures", default=known, help="such as fig4,fig7; default: %(default)s")
    chosen = parser.parse_args(arguments)
    interrupt_once()
    try:
        plan = make_plan(chosen.profile, chosen.figures.split(","))
        with _alone(RESULTS / "reproduce.lock"):
            return Reproduction(plan).carry_out()
    except SettingError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"results: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        return INTERRUPTED


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the machine's one reproduction: two at once would disturb each other's timing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("waiting for another reproduction to end: they would disturb each other")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(text, flush=True)


def _ends_repetition(runs: Sequence[PlannedRun], place: int) -> bool:
    """Whether the next run repeats everything with another seed: time for a first look."""
    return place + 1 < len(runs) and runs[place + 1].config.seed != runs[place].config.seed


def _duration(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {seconds:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
