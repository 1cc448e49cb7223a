"""Stand-ins for runs, and for the children that carry them out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from experiments.plan_runs import Plan, PlannedRun
from experiments.pool import Ended, Order
from experiments.reproduce import Reproduction
from experiments.schema import from_plain


class FakeRuns:
    """Stands in for the runs: knows which are finished; a run in `bad` ends with its status."""

    def __init__(self, plan: Plan) -> None:
        self.finished: set[str] = set()
        self.bad: dict[str, int] = {}  # label: exit status
        self.silent: set[str] = set()
        self.started: list[str] = []
        self.draws = 0
        self._by_overrides = {run.overrides: run for run in plan.runs()}

    def draw(self, command: Sequence[str]) -> int:
        assert command[2] == "analysis.draw"
        self.draws += 1
        return 0

    def run(self, overrides: Sequence[str]) -> int:
        run = self._by_overrides[tuple(overrides)]
        self.started.append(run.label)
        status = self.bad.get(run.label, 0)
        if status == 0 and run.label not in self.silent:
            self.finished.add(run.fingerprint)
        return status


class FakePool:
    """Two children; the run that began first ends when the second has begun."""

    size = 2

    def __init__(self, fake: FakeRuns) -> None:
        self._fake = fake
        self._folders: set[Path] = set()

    def __enter__(self) -> FakePool:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def carry_out(self, jobs: Iterable[tuple[PlannedRun, Order]]) -> Iterator[Ended[PlannedRun]]:
        waiting: list[tuple[PlannedRun, Order]] = []
        for job in jobs:
            waiting.append(job)
            if len(waiting) == self.size:
                yield self._ended(*waiting.pop(0))
        for job in waiting:
            yield self._ended(*job)

    def _ended(self, run: PlannedRun, order: Order) -> Ended[PlannedRun]:
        assert from_plain(order.settings) == run.config
        assert order.run_dir not in self._folders
        self._folders.add(order.run_dir)
        return Ended(run, self._fake.run(run.overrides), f"{run.label} said this")


def carry_out(plan: Plan, fake: FakeRuns, results: Path) -> int:
    made = Reproduction(
        plan, results, fake.run, fake.draw, lambda: FakePool(fake), lambda tracking, folder: "id"
    )
    return made.carry_out()
