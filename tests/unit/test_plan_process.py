"""The planner's command as a process: streams, interrupts, a user without a home."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mlfabric import compiled
from mlfabric.plan import answer
from tests.unit.test_plan_command import fig4

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "mlfabric.plan"]


def run(*argv: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *argv], input=data, capture_output=True, cwd=ROOT, check=False)


def test_as_a_process() -> None:
    done = run(data=json.dumps(fig4()).encode())
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["completion"] == {"u1": 7.0}
    bad = json.dumps({**fig4(), "server": "x"}).encode()
    done = run("-", data=bad)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b'server: "x": must be a host in links\n'


PRINTING_SOLVER = """
import ctypes, sys, scipy.optimize
from mlfabric.plan.__main__ import main

def printing(*given, solve=scipy.optimize.milp, **options):
    result = solve(*given, **options)
    ctypes.CDLL(None).puts(b"stray")
    return result

scipy.optimize.milp = printing
sys.exit(main(["--exact"]))
"""


def test_what_the_solver_prints_is_no_part_of_the_answer() -> None:
    command, asked = [sys.executable, "-c", PRINTING_SOLVER], json.dumps(fig4()).encode()
    held_back = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        command, input=asked, capture_output=True, cwd=ROOT, env=held_back, check=False
    )
    assert done.returncode == 0
    assert json.loads(done.stdout) == answer(fig4(), exact=True)
    assert set(done.stderr.splitlines()) == {b"stray"}


def test_a_reader_that_stops_early_is_no_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    data = json.dumps(fig4()).encode()
    done = subprocess.run(
        COMMAND, input=data, stdout=write_end, stderr=subprocess.PIPE, cwd=ROOT, check=False
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("redirected", "status", "line"),
    [
        (">&-", 1, b"standard output: closed\n"),
        (">/dev/full", 1, b"standard output: No space left on device\n"),
        ("1</dev/null", 1, b"standard output: Bad file descriptor\n"),
        ("<&-", 0, b""),
    ],
)
def test_streams_that_are_closed_or_full(
    redirected: str, status: int, line: bytes, tmp_path: Path
) -> None:
    (tmp_path / "fig4.json").write_text(json.dumps(fig4()), encoding="utf-8")
    done = in_shell(redirected, str(tmp_path / "fig4.json"))
    assert (done.returncode, done.stderr) == (status, line)
    assert bool(done.stdout) == (status == 0)


def test_a_closed_standard_input_is_no_input() -> None:
    done = in_shell("<&-")
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"standard input: closed\n")


def test_a_refusal_without_standard_error_is_still_one() -> None:
    done = in_shell("2>&-", "--plott")
    assert (done.returncode, done.stdout) == (2, b"")


def in_shell(redirected: str, *argv: str) -> subprocess.CompletedProcess[bytes]:
    command = ["sh", "-c", f'exec "$@" {redirected}', "sh", *COMMAND, *argv]
    return subprocess.run(command, capture_output=True, cwd=ROOT, check=False)


def test_the_chart_needs_no_display(tmp_path: Path) -> None:
    chart = tmp_path / "fig4.svg"
    elsewhere = {**os.environ, "MPLBACKEND": "nope"}
    command = [*COMMAND, "--plot", str(chart)]
    asked = json.dumps(fig4()).encode()
    done = subprocess.run(
        command, input=asked, capture_output=True, cwd=ROOT, env=elsewhere, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert chart.exists()


def with_sigint(handler: signal.Handlers) -> subprocess.Popen[bytes]:
    """The command, started by a parent that handles interrupts like this."""
    return subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, handler),
    )


@pytest.mark.parametrize("after_s", [0.0, 4.0])  # before planning, during it
def test_an_interrupt_ends_it_at_once(after_s: float) -> None:
    """Sharing fairly among so many takes minutes."""
    waiting = [{**fig4()["updates"][0], "id": f"u{i}", "bytes": 10**6 + i} for i in range(3000)]
    process = with_sigint(signal.SIG_DFL)
    assert process.stdin is not None
    process.stdin.write(json.dumps({**fig4(), "updates": waiting, "sharing": "fair"}).encode())
    process.stdin.flush()  # more than a pipe holds: it has begun to read
    if after_s:
        process.stdin.close()
        process.stdin = None
        time.sleep(after_s)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (-signal.SIGINT, b"", b"")


def test_an_interrupt_stays_ignored_in_the_background() -> None:
    process = with_sigint(signal.SIG_IGN)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(json.dumps(fig4()).encode(), timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert json.loads(out) == answer(fig4())


def test_a_user_without_a_home_has_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor can any be kept beside the sources: nothing is kept, nothing is raised."""
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 5)
    (tmp_path / "file").touch()
    monkeypatch.setattr(compiled, "_BESIDE", tmp_path / "file")
    assert compiled._folder.__wrapped__() is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = compiled._folder.__wrapped__()
    assert kept is not None
    assert Path(kept).parent == tmp_path / "mlfabric"


def test_the_example_in_the_docs(tmp_path: Path) -> None:
    """The page shows an input and what the command really answers."""
    page = (ROOT / "docs" / "planner.md").read_text(encoding="utf-8")
    problem, shown = re.findall(r"```json\n(.*?)```", page, re.DOTALL)[:2]
    (tmp_path / "batch.json").write_text(problem, encoding="utf-8")
    done = run(str(tmp_path / "batch.json"))
    assert done.stdout.decode() == shown
