"""Run what the figures need, reuse what is there, then draw: python -m experiments.reproduce."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from analysis.errors import AnalysisError
from analysis.load import finished_fingerprints
from experiments.child import run_child
from experiments.comparison import record_reproduction
from experiments.errors import RunFailed
from experiments.files import alone
from experiments.interrupts import INTERRUPTED, interrupt_once
from experiments.measurements import write_measurement
from experiments.paths import RESULTS
from experiments.plan_runs import Plan, PlannedRun, figures_of, known_figures, make_plan
from experiments.planner_answers import write_answers
from experiments.pool import Order, Pool
from experiments.resolvers import launch_stamp
from experiments.run import main as run_here
from experiments.schema import to_plain
from experiments.sections import TrackingConfig
from mlfabric.errors import MlfabricError, SettingError
from workloads.base import WorkloadError

FIRST_GUESS_OVERHEAD_S = 20.0  # of a run on real ranks, beyond its training time
FIRST_GUESS_VIRTUAL_S = 4.0  # of a run on the virtual clock
NO_VALID_RUN = "left no valid run of the planned settings and code (code changed meanwhile?)"


@dataclass(frozen=True)
class Failure:
    """A run that was started and left no finished, valid run behind."""

    run: PlannedRun
    reason: str


class Pace:
    """How long runs take, of the machine's clock; learned from those that have ended.

    Runs on the virtual clock go `abreast`, others one by one.
    """

    def __init__(self, abreast: int) -> None:
        self._abreast = abreast
        self._overheads_s: list[float] = []
        self._virtual_s: list[float] = []

    def learn(self, run: PlannedRun, took_s: float) -> None:
        """Note how long a run took."""
        if run.config.virtual:
            self._virtual_s.append(took_s)
        else:
            self._overheads_s.append(took_s - run.config.engine.max_seconds)

    def left_s(self, runs: Iterable[PlannedRun]) -> float:
        """How long these will take."""
        overhead_s = fmean(self._overheads_s or [FIRST_GUESS_OVERHEAD_S])
        virtual_s = fmean(self._virtual_s or [FIRST_GUESS_VIRTUAL_S]) / self._abreast
        return sum(
            virtual_s if run.config.virtual else run.config.engine.max_seconds + overhead_s
            for run in runs
        )


class Reproduction:
    """Carries out a plan: the planner's figures, the missing runs, then all figures.

    Runs on real ranks need the machine to themselves; those on the virtual clock do not care.
    """

    def __init__(
        self,
        plan: Plan,
        results: Path = RESULTS,
        run: Callable[[list[str]], int] = run_here,
        draw: Callable[[Sequence[str]], int] = run_child,
        make_pool: Callable[[], Pool] = Pool,
        record: Callable[[TrackingConfig, Path], str] = record_reproduction,
    ) -> None:
        self._plan = plan
        self._runs = plan.runs()
        self._figures = [*plan.from_planner, *plan.measured, *plan.figures]
        self._plan_file = results / plan.profile / "plan.json"
        self._run = run
        self._draw_command = draw
        self._make_pool = make_pool
        self._record_in_mlflow = record
        self._folders = results / "runs" / launch_stamp()
        self._left: list[PlannedRun] = []
        self._todo = 0

    def carry_out(self) -> int:
        """Exit status: 0 when every planned run is there and every figure is drawn."""
        self._plan.write(self._plan_file)
        write_answers(self._plan.from_planner, self._plan_file.parent / "plans")
        done = self._finished() if self._runs else set()
        missing = [run for run in self._runs if run.fingerprint not in done]
        if missing and self._plan.from_planner:
            self._draw(self._plan.from_planner)  # what the planner answers waits for no run
        self._measure()
        with self._make_pool() as pool:
            self._pace = Pace(pool.size)
            if self._runs:
                self._announce(missing)
            failures = self._run_all(missing, pool)
        drawn = self._draw(self._figures)
        recorded = self._record()
        self._report(failures)
        return 0 if drawn and recorded and not failures else 1

    def _record(self) -> bool:
        """The figures' numbers, pictures and report in MLflow, where there are runs."""
        if not self._runs:
            return True
        try:
            run_id = self._record_in_mlflow(self._runs[0].config.tracking, self._plan_file.parent)
        except (RunFailed, OSError, ValueError) as error:
            _say(f"not recorded in MLflow: {error}")
            return False
        _say(f"recorded in MLflow: run {run_id}, of kind comparison (make mlflow-ui)")
        return True

    def _measure(self) -> None:
        """What cannot be measured is not drawn, and said so; everything else goes on."""
        for figure in self._plan.measured:
            try:
                write_measurement(figure, self._plan_file.parent / "measured", _say)
            except (WorkloadError, MlfabricError, OSError) as error:
                _say(f"{figure}: not measured: {error}")

    def _announce(self, missing: Sequence[PlannedRun]) -> None:
        reused = len(self._runs) - len(missing)
        _say(
            f"{self._plan.profile}: {len(self._runs)} runs for {', '.join(self._plan.figures)}; "
            f"{reused} reused, {len(missing)} to do, {_duration(self._pace.left_s(missing))}"
        )

    def _run_all(self, missing: Sequence[PlannedRun], pool: Pool) -> list[Failure]:
        """One repetition of everything after the other, with a first look after the first."""
        self._left, self._todo = list(missing), len(missing)
        failures: list[Failure] = []
        repetitions = itertools.groupby(missing, key=lambda run: run.config.seed)
        for number, (_, repetition) in enumerate(repetitions):
            runs = list(repetition)
            failures += self._run_abreast([run for run in runs if run.config.virtual], pool)
            failures += self._run_one_by_one([run for run in runs if not run.config.virtual])
            if number == 0 and self._left:
                self._draw(self._figures)
        return failures

    def _run_one_by_one(self, runs: Sequence[PlannedRun]) -> list[Failure]:
        found = (self._run_one(run, self._begin(run)) for run in runs)
        return [failure for failure in found if failure is not None]

    def _run_one(self, run: PlannedRun, place: str) -> Failure | None:
        start_s = time.monotonic()
        reason = self._why_not(run, self._run(list(run.overrides)))
        if reason is None and run.fingerprint not in self._finished():
            reason = NO_VALID_RUN
        if reason is None:
            self._pace.learn(run, time.monotonic() - start_s)
            return None
        _say(f"{place} {run.label} {reason}")
        return Failure(run, reason)

    def _run_abreast(self, runs: Sequence[PlannedRun], pool: Pool) -> list[Failure]:
        """The store is asked once, at the end, whether it holds them all."""
        started: dict[str, tuple[str, float]] = {}

        def jobs() -> Iterator[tuple[PlannedRun, Order]]:
            for run in runs:
                started[run.fingerprint] = (self._begin(run), time.monotonic())
                yield run, Order(to_plain(run.config), self._folders / run.fingerprint)

        failures, ended = [], []
        for end in pool.carry_out(jobs()):
            place, start_s = started[end.job.fingerprint]
            reason = self._why_not(end.job, end.status)
            if reason is None:
                self._pace.learn(end.job, time.monotonic() - start_s)
                ended.append(end.job)
            else:
                _say(f"{end.said.rstrip()}\n{place} {end.job.label} {reason}")
                failures.append(Failure(end.job, reason))
        valid = self._finished() if ended else set()
        lost = [run for run in ended if run.fingerprint not in valid]
        return failures + [Failure(run, NO_VALID_RUN) for run in lost]

    def _begin(self, run: PlannedRun) -> str:
        """Announce a run that starts now; returns its place among all."""
        left = _duration(self._pace.left_s(self._left))
        self._left.remove(run)
        place = f"[{self._todo - len(self._left)}/{self._todo}]"
        _say(f"{place} {run.label} ({left} left)")
        return place

    def _why_not(self, run: PlannedRun, status: int) -> str | None:
        """What an exit status says went wrong."""
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        return None if status == 0 else f"ended with status {status}"

    def _finished(self) -> set[str]:
        tracking = self._runs[0].config.tracking
        wanted = {run.fingerprint for run in self._runs}
        return finished_fingerprints(tracking.store, tracking.experiment, wanted)

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
    parser.add_argument(
        "--profile", default="laptop", help="smoke, laptop (default), full or paper"
    )
    known = ",".join(known_figures())
    parser.add_argument("--figures", help=f"of {known}; default: those of the profile")
    chosen = parser.parse_args(arguments)
    interrupt_once()
    try:
        named = chosen.figures.split(",") if chosen.figures else figures_of(chosen.profile)
        plan = make_plan(chosen.profile, named)
        waits = "waiting for another reproduction to end: they would disturb each other"
        with alone(RESULTS / "reproduce.lock", waits):
            return Reproduction(plan).carry_out()
    except SettingError as error:
        print(error, file=sys.stderr)
        return 2
    except (AnalysisError, OSError) as error:
        print(f"results: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        return INTERRUPTED


def _say(text: str) -> None:
    print(text, flush=True)


def _duration(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {seconds:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
