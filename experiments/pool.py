"""Runs on the virtual clock, one a core: children that carry out one after another.

A child imports frameworks once, for many runs.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

from experiments.mpiexec import ONE_THREAD
from experiments.paths import ROOT
from mlfabric.emulation.namespaces import die_with_parent

MOST_CHILDREN = 8
"""A child with torch takes about half a gigabyte [ours]."""

_PATIENCE_S = 20.0

T = TypeVar("T")


@dataclass(frozen=True)
class Ended(Generic[T]):
    """A job that was carried out: its exit status, as `experiments.run` has it, and its words."""

    job: T
    status: int
    said: str


@dataclass(frozen=True)
class Order:
    """A run to carry out: its settings, plain and checked, and its folder; spares composing."""

    settings: dict[str, Any]
    run_dir: Path


class Pool:
    """Children at work on runs; all are gone when it is left.

    A child is in a process group of its own, so that a Ctrl-C of the terminal reaches it once,
    through us. Should we die ourselves, the kernel tells it to stop.
    """

    def __init__(self, size: int | None = None) -> None:
        self.size = size or min(len(os.sched_getaffinity(0)), MOST_CHILDREN)
        self._idle: list[_Child] = []
        self._busy = selectors.DefaultSelector()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        busy = [key.data[0] for key in self._busy.get_map().values()]
        for child in busy:
            child.interrupt()
        for child in (*busy, *self._idle):
            child.end()
        self._busy.close()

    def carry_out(self, jobs: Iterable[tuple[T, Order | Sequence[str]]]) -> Iterator[Ended[T]]:
        """Carry out jobs, orders or command lines of `experiments.run`; tell of each as it ends.

        A job is taken from `jobs` when it is started.
        """
        queue = iter(jobs)
        for job, order in queue:
            self._start(job, order)
            if len(self._busy.get_map()) >= self.size:
                yield from self._wait()
        while self._busy.get_map():
            yield from self._wait()

    def _start(self, job: T, order: Order | Sequence[str]) -> None:
        child = self._idle.pop() if self._idle else _Child()
        child.ask(order)
        self._busy.register(child.answers, selectors.EVENT_READ, (child, job))

    def _wait(self) -> Iterator[Ended[T]]:
        for key, _ in self._busy.select():
            child, job = key.data
            self._busy.unregister(key.fileobj)
            status, said = child.answer()
            if child.alive():
                self._idle.append(child)
            else:
                child.end()
            yield Ended(job, status, said)


class _Child:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "experiments.pool_child"],
            cwd=ROOT,
            env={**os.environ, **ONE_THREAD},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
            preexec_fn=lambda: die_with_parent(signal.SIGINT),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions, self.answers = self._process.stdin, self._process.stdout

    def ask(self, order: Order | Sequence[str]) -> None:
        question: dict[str, Any] = {"command_line": None, "settings": None, "run_dir": None}
        if isinstance(order, Order):
            question |= {"settings": order.settings, "run_dir": str(order.run_dir)}
        else:
            question["command_line"] = list(order)
        self._questions.write(json.dumps(question) + "\n")
        self._questions.flush()

    def answer(self) -> tuple[int, str]:
        """Status and output of what it was asked; its own status where it died over it."""
        line = self.answers.readline()
        if line:
            status, said = json.loads(line)
            return status, said
        return self._process.wait(), "the process that carried it out has died"

    def alive(self) -> bool:
        return self._process.poll() is None

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self) -> None:
        """Wait until it has cleaned up."""
        self._questions.close()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.answers.close()
