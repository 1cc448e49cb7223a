"""The real command line: refusals are one line on stderr, exit status 2, and leave nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.paths import ROOT


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "experiments.run", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["network"], "network: must be of the form key=value"),
        (["cluster.workers=0"], "cluster.workers=0: must be an integer, at least 1, at most 20000"),
        (
            ["network=ns9"],
            "network=ns9: unknown choice; must be one of halved, none, ns1, ns2, ns3",
        ),
        (["-m", "seed=0,1", "policy=a,b"], "policy=a: unknown choice"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
        (["seed=1", "-m", "seed=2"], "options such as -m come before all key=value"),
        (["--config-dir=/tmp"], "--config-dir: settings come from conf/ alone"),
    ],
)
def test_a_refusal_is_one_line_and_leaves_nothing(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    done = run(*arguments, f"hydra.run.dir={tmp_path / 'run'}", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_that_nobody_answers_is_one_line(tmp_path: Path) -> None:
    strike = "import os, signal, experiments; os.kill(os.getpid(), signal.SIGINT)"
    default = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    done = subprocess.run(
        [sys.executable, "-c", default + strike], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "interrupted\n")


def test_settings_can_be_shown_without_a_run(tmp_path: Path) -> None:
    done = run("--cfg", "job", "network=ns1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "name: ns1" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_folders_of_launches_in_the_same_second_differ(tmp_path: Path) -> None:
    script = (
        "from experiments.overrides import composed;"
        "c = composed(); print(c.hydra.run.dir); print(c.hydra.run.dir)"
    )
    launches = [
        subprocess.Popen(
            [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    printed = [launch.communicate(timeout=60)[0].split() for launch in launches]
    assert all(first == second for first, second in printed)
    folders = {Path(first) for first, _ in printed}
    assert len(folders) == 3
    assert all(folder.is_absolute() and folder.is_relative_to(ROOT) for folder in folders)
