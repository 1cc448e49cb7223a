"""Bubbles run real programs, and end, whatever ends them, with nothing left."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import PROGRAMS, PROJECT, Bubble

NOBODY = 65534
PR_CAPBSET_DROP = 24
CAP_SETFCAP = 31
MPIRUN = [
    str(Path(sys.executable).parent / "mpirun"),
    *("--allow-run-as-root", "--oversubscribe", "-n", "3"),
    *("--mca", "pml", "ob1", "--mca", "btl", "tcp,self"),
    *("--mca", "btl_tcp_if_include", "eth0", "--pmixmca", "ptl_base_if_include", "fabric"),
    *("--pmixmca", "ptl_base_remote_connections", "1"),
]


def python(program: str) -> list[str]:
    return ["env", f"PYTHONPATH={PROJECT}", sys.executable, str(PROGRAMS / program)]


def running(marker: str) -> list[int]:
    """Ids of all processes whose command line holds the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in line:
                found.append(int(entry.name))
    return found


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        if holds():
            return True
        time.sleep(0.02)
    return holds()


def outside() -> tuple[list[str], list[str]]:
    """Network interfaces and named namespaces of this machine."""
    names = sorted(name for _, name in socket.if_nameindex())
    return names, sorted(str(path) for path in Path("/run").glob("netns/*"))


def drop_capabilities() -> None:
    """Leave the program that is executed next what an ordinary user has: none.

    But for CAP_SETFCAP, without which user 0 (alone) may not be mapped into a user namespace.
    """
    libc = ctypes.CDLL(None)
    for capability in set(range(64)) - {CAP_SETFCAP}:
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def sleepers(marker: str) -> list[str]:
    """A command of three processes, in two sessions, that would live long."""
    return ["sh", "-c", f": {marker}; setsid sleep 9999 & sleep 9998 & wait"]


def test_mpi_ranks_pass_vectors_around_three_hosts(bubble: Bubble) -> None:
    result = bubble.run(*MPIRUN, *python("ring.py"))
    assert result.returncode == 0, result.stdout + result.stderr
    assert sorted(result.stdout.split("\n")) == [
        "",
        "rank 0 of 3: good",
        "rank 1 of 3: good",
        "rank 2 of 3: good",
    ]


@pytest.mark.parametrize(
    ("script", "status"), [("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
)
def test_status_is_the_commands(bubble: Bubble, script: str, status: int) -> None:
    assert bubble.run("sh", "-c", script).returncode == status


def test_missing_program_is_named(bubble: Bubble) -> None:
    result = bubble.run("no-such-program")
    assert result.returncode == 127
    assert "no-such-program" in result.stderr


def test_command_sees_only_the_bubble(bubble: Bubble) -> None:
    result = bubble.run(
        "sh", "-c", "echo $$ $TMPDIR; ls /run /dev/shm; ls /proc | grep -c '^[0-9]'"
    )
    first, *listing, processes = result.stdout.split("\n")[:-1]
    assert first == "2 /run/tmp"
    assert listing == ["/dev/shm:", "", "/run:", "netns", "root-network", "tmp"]
    assert int(processes) <= 5


def test_killing_the_outer_process_ends_everything(bubble: Bubble) -> None:
    before = outside()
    marker = f"bubble-test-{os.getpid()}-outer"
    process = bubble.start(*sleepers(marker))
    assert within(20, lambda: len(running(marker)) == 1)
    net = Path(f"/proc/{running(marker)[0]}/ns/net").readlink()
    inside = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if holds(pid, net)]
    assert len(inside) >= 4
    process.kill()
    assert within(1, lambda: not any(holds(pid, net) for pid in inside))
    assert outside() == before


def holds(pid: int, net: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/ns/net").readlink() == net
    except OSError:
        return False


def test_killing_the_launcher_ends_everything(bubble: Bubble) -> None:
    before = outside()
    marker = f"bubble-test-{os.getpid()}-launcher"
    line = bubble.command_line(*sleepers(marker))
    launcher = subprocess.Popen(
        [sys.executable, "-c", f"import subprocess; subprocess.run({line!r})"], cwd=PROJECT
    )
    assert within(20, lambda: len(running(marker)) == 1)
    launcher.kill()
    launcher.wait()
    assert within(1, lambda: not running(marker) and not running(str(bubble.run_dir)))
    assert outside() == before


def test_a_launcher_that_is_already_gone_gets_no_bubble(bubble: Bubble) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    line = bubble.command_line("touch", str(bubble.run_dir / "ran"), launcher_pid=gone.pid)
    assert subprocess.run(line, cwd=PROJECT, capture_output=True, check=False).returncode == 125
    assert not (bubble.run_dir / "ran").exists()


def test_stop_signal_lets_the_command_finish(bubble: Bubble) -> None:
    ready = bubble.run_dir / "ready"
    process = bubble.start("sh", "-c", f"trap 'exit 3' TERM; touch {ready}; sleep 99 & wait")
    assert within(20, ready.exists)
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 3


def test_stop_signal_is_final_for_a_deaf_command(bubble: Bubble) -> None:
    ready = bubble.run_dir / "ready"
    process = bubble.start("sh", "-c", f"trap '' TERM; touch {ready}; while :; do sleep 1; done")
    assert within(20, ready.exists)
    process.terminate()
    assert process.wait(5) == 143


def test_two_bubbles_at_once_do_not_meet(bubble: Bubble, tmp_path: Path) -> None:
    other = Bubble(tmp_path / "other")
    other.run_dir.mkdir()
    processes = [b.start(*MPIRUN, *python("ring.py")) for b in (bubble, other)]
    for process in processes:
        output, _ = process.communicate(timeout=90)
        assert process.returncode == 0
        assert output.count("good") == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="already an ordinary user")
def test_user_nobody_can_do_it(needs_namespaces: None) -> None:
    folder = Path(tempfile.mkdtemp())
    os.chown(folder, NOBODY, NOBODY)
    identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    try:
        result = Bubble(folder).run(*MPIRUN, *python("ring.py"), **identity)
        assert result.returncode == 0, result.stdout + result.stderr
        assert result.stdout.count("good") == 3
        assert (folder / "calibration.json").stat().st_uid == NOBODY
    except PermissionError:
        pytest.skip(f"user nobody may not run {os.path.realpath(sys.executable)}")
    finally:
        shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="already an ordinary user")
def test_no_capability_is_needed(bubble: Bubble) -> None:
    show = "grep CapBnd /proc/self/status"
    dropped = subprocess.run(
        show.split(), capture_output=True, text=True, check=True, preexec_fn=drop_capabilities
    )
    assert int(dropped.stdout.split()[1], 16) == 1 << CAP_SETFCAP
    result = bubble.run(*MPIRUN, *python("ring.py"), preexec_fn=drop_capabilities)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("good") == 3


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"congestion_control": "nonesuch"}, "use congestion control 'nonesuch'"),
        ({"hosts": []}, "hosts is 0; allowed: 1 to 253 hosts"),
        (
            {"hosts": [{"name": "../w1", "bandwidth_bytes_per_s": 1e6}]},
            "name of a host is '../w1'; allowed: letters and digits",
        ),
        (
            {"hosts": [{"name": "w1", "bandwidth_bytes_per_s": 0}]},
            "bandwidth of w1 is 0; allowed: at least 1 byte/s",
        ),
        ({"rate_events": [[0, "w9", 0.5]]}, "host of a rate event is 'w9'"),
    ],
)
def test_bad_spec_is_one_line(bubble: Bubble, changes: dict[str, object], told: str) -> None:
    line = bubble.command_line("true", **changes)
    result = subprocess.run(line, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert result.returncode == 125
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


def test_spec_with_a_missing_key_is_one_line(bubble: Bubble) -> None:
    line = bubble.command_line("true")
    path = Path(line[-1])
    spec = json.loads(path.read_text())
    del spec["run_dir"]
    path.write_text(json.dumps(spec))
    result = subprocess.run(line, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert result.returncode == 125
    assert "run_dir" in result.stderr
    assert result.stderr.count("\n") == 1
