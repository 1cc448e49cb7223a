"""Children that carry out runs: answers, deaths, and that nothing is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments import pool as module
from experiments.paths import ROOT
from experiments.pool import Order, Pool

# A child that does what its "settings" say instead of a run.
CHILD = """
import os, sys, time
from experiments.pool_child import serve

def note(text):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(text + "\\n")

def carry_out(question):
    what, value = question["command_line"] or (question["settings"]["what"], question["run_dir"])
    if what == "die":
        os._exit(int(value))
    print("said", value)
    if what == "status":
        return int(value)
    try:
        note("asleep")
        time.sleep(60)
    except KeyboardInterrupt:
        note("cleaned up")
        return 130

sys.exit(serve(carry_out))
"""


def order(what: str, value: str = "0") -> Order:
    return Order({"what": what}, Path(value))


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[subprocess.Popen[str]]:
    """Every child that is started, its runs replaced."""
    started: list[subprocess.Popen[str]] = []
    real = subprocess.Popen

    def start(command: list[str], **options: object) -> subprocess.Popen[str]:
        assert command[1:] == ["-m", "experiments.pool_child"]
        started.append(real([sys.executable, "-c", CHILD], **options))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(module.subprocess, "Popen", start)
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    return started


def test_jobs_are_carried_out_by_as_many_children_as_asked_for(
    children: list[subprocess.Popen[str]],
) -> None:
    with Pool(2) as pool:
        jobs = [(number, order("status", str(number))) for number in range(6)]
        ended = sorted(pool.carry_out(jobs), key=lambda end: end.job)
    assert [(end.job, end.status, end.said) for end in ended] == [
        (number, number, f"said {number}\n") for number in range(6)
    ]
    assert len(children) == 2
    assert all(child.poll() == 0 for child in children)


def test_a_job_may_be_a_command_line(children: list[subprocess.Popen[str]]) -> None:
    with Pool(1) as pool:
        assert [end.status for end in pool.carry_out([("a", ["status", "7"])])] == [7]


def test_a_job_is_taken_only_when_a_child_is_free(children: list[subprocess.Popen[str]]) -> None:
    taken: list[int] = []

    def jobs():
        for number in range(3):
            taken.append(number)
            yield number, order("status", "0")

    with Pool(1) as pool:
        for end in pool.carry_out(jobs()):
            assert taken == list(range(end.job + 1))


def test_a_child_that_dies_fails_its_job_alone(children: list[subprocess.Popen[str]]) -> None:
    with Pool(1) as pool:
        jobs = [("a", order("status", "0")), ("b", order("die", "3")), ("c", order("status", "0"))]
        ended = list(pool.carry_out(jobs))
    assert [(end.job, end.status) for end in ended] == [("a", 0), ("b", 3), ("c", 0)]
    assert "has died" in ended[1].said
    assert len(children) == 2


def assert_notes(notes: Path, *lines: str) -> None:
    deadline = time.monotonic() + 60
    while not notes.exists() or notes.read_text().splitlines() != list(lines):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_busy_children_clean_up_when_the_pool_is_left(
    children: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    def begun_and_interrupted():
        yield 0, order("sleep")
        yield 1, order("sleep")
        assert_notes(tmp_path / "notes", "asleep", "asleep")
        raise KeyboardInterrupt

    start_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt), Pool(3) as pool:
        list(pool.carry_out(begun_and_interrupted()))
    assert time.monotonic() - start_s < 50
    assert_notes(tmp_path / "notes", *["asleep"] * 2, *["cleaned up"] * 2)
    assert [child.poll() for child in children] == [130, 130]


PARENT = """
import subprocess, sys
from experiments import pool
real = subprocess.Popen

def start(command, **options):
    return real([sys.executable, "-c", sys.argv[1]], **options)

pool.subprocess.Popen = start
with pool.Pool(1) as children:
    list(children.carry_out([(0, ["sleep", ""])]))
"""


def test_children_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD], cwd=ROOT, env={**os.environ, "NOTES": str(notes)}
    )
    assert_notes(notes, "asleep")
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert_notes(notes, "asleep", "cleaned up")
