"""Reproducing: what is planned, reused, run, repeated and drawn; runs are replaced by a fake."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments import profiles, reproduce
from experiments.paths import ROOT
from experiments.plan_runs import Plan, figures_of, known_figures, make_plan
from experiments.profiles import read_profile
from mlfabric.errors import SettingError
from tests.unit.fake_runs import FakeRuns, carry_out


@pytest.fixture(scope="module")
def smoke() -> Plan:
    return make_plan("smoke", ["fig7", "fig8"])


@pytest.fixture
def fake(smoke: Plan, monkeypatch: pytest.MonkeyPatch) -> FakeRuns:
    runs = FakeRuns(smoke)
    monkeypatch.setattr(
        reproduce, "finished_fingerprints", lambda uri, name, wanted: runs.finished & set(wanted)
    )
    return runs


def test_smoke_plans_both_workloads_and_three_policies(smoke: Plan) -> None:
    cells = [run.cell() for run in smoke.runs()]
    assert {(cell["workload"], cell["policy"]) for cell in cells} == {
        (workload, policy)
        for workload in ("plda_sotu", "resnet_mnist5k")
        for policy in ("async_ps", "ring_allreduce", "mlfabric_a")
    }
    for cell in cells:
        same = [cell[key] for key in ("cluster", "network", "compute", "seed")]
        assert same == ["laptop", "ns1", "cs2", 0]
    assert all(run.config.engine.max_seconds <= 20 for run in smoke.runs())


def test_laptop_runs_one_seed_after_another_within_its_time() -> None:
    runs = make_plan("laptop", ["fig7"]).runs()
    seeds = [run.config.seed for run in runs]
    assert seeds == sorted(seeds)
    assert {run.config.cluster.name for run in runs} == {"laptop"}
    resnet = [run.config.seed for run in runs if run.config.workload.name == "resnet_mnist5k"]
    assert sorted(resnet) == [0] * 3 + [1] * 3 + [2] * 3
    overhead_s = 20  # of a run: starting ranks, evaluating the last snapshots
    assert sum(run.config.engine.max_seconds + overhead_s for run in runs) <= 15 * 60


def test_figures_share_their_runs(smoke: Plan) -> None:
    assert len(smoke.figures["fig7"]) == len(smoke.figures["fig8"]) == len(smoke.runs()) == 6


def test_the_plan_file_names_every_run(smoke: Plan, tmp_path: Path) -> None:
    smoke.write(tmp_path / "new" / "plan.json")
    content = json.loads((tmp_path / "new" / "plan.json").read_text())
    assert content["profile"] == "smoke"
    assert content["tracking_uri"].startswith("sqlite:////")
    for figure in ("fig7", "fig8"):
        fingerprints = [cell["fingerprint"] for cell in content["figures"][figure]]
        assert fingerprints == [run.fingerprint for run in smoke.runs()]


@pytest.mark.parametrize(
    ("profile", "figures", "message"),
    [
        ("paper", ["fig7"], "profile paper: IMAGENET: must be given"),
        ("big", ["fig7"], "profile 'big': unknown; known: full, laptop, paper, smoke"),
        (
            "smoke",
            ["fig7", "fig99"],
            "figure 'fig99': unknown; known: fig1, .*, fig10, performance_profile, .*, table1",
        ),
        ("smoke", ["adhoc"], "figure 'adhoc': unknown"),
        ("smoke", ["fig10"], "figure 'fig10': profile 'smoke' plans no run of it"),
    ],
)
def test_what_cannot_be_planned_is_refused(profile: str, figures: list[str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make_plan(profile, figures)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "runs: [{cluster: laptop, seeds: [0], max_seconds: -1.0}]",
            "max_seconds=-1.0: must be a number, above 0",
        ),
        ("runs: [{cluster: laptop, seeds: [0], max_second: 1.0}]", "max_second"),
        ("runs: [{cluster: laptop, seeds: 0, max_seconds: 1.0}]", "seeds=0: must be a list"),
        ("measured: fig9", "profile mine: measured=fig9: must be a list, each a text"),
    ],
)
def test_a_bad_profile_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    (tmp_path / "profile").mkdir()
    (tmp_path / "profile" / "mine.yaml").write_text(text)
    monkeypatch.setattr(profiles, "CONF", tmp_path)
    monkeypatch.setattr(profiles, "choices", lambda group: ["mine"])
    with pytest.raises(SettingError) as refusal:
        read_profile("mine")
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_everything_is_run_then_drawn(
    smoke: Plan, fake: FakeRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carry_out(smoke, fake, tmp_path) == 0
    assert fake.started == [run.label for run in smoke.runs()]
    assert fake.draws == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("smoke: 6 runs for fig7, fig8; 0 reused, 6 to do, about ")
    assert lines[-2].startswith(
        "[6/6] plda_sotu async_ps laptop ns1/cs2 (8 workers) seed 0 (about "
    )


def test_finished_runs_are_reused(smoke: Plan, fake: FakeRuns, tmp_path: Path) -> None:
    runs = smoke.runs()
    fake.finished = {run.fingerprint for run in runs[:4]}
    assert carry_out(smoke, fake, tmp_path) == 0
    assert fake.started == [run.label for run in runs[4:]]
    assert carry_out(smoke, fake, tmp_path) == 0
    assert len(fake.started) == 2


def test_a_failure_is_told_with_its_command_and_the_rest_goes_on(
    smoke: Plan, fake: FakeRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = smoke.runs()[1]
    fake.bad = {failing.label: 1}
    assert carry_out(smoke, fake, tmp_path) == 1
    assert len(fake.started) == 6
    assert fake.draws == 1
    *_, count, command = capsys.readouterr().out.splitlines()
    assert count == "1 runs failed; repeat each with:"
    repeat, reason = command.strip().split("   # ")
    assert repeat.startswith("python -m experiments.run experiment=fig7 cluster=laptop workload=")
    assert repeat.split()[3:] == list(failing.overrides)
    assert reason == "ended with status 1"


def test_a_run_that_leaves_no_record_is_a_failure(
    smoke: Plan, fake: FakeRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.silent = {smoke.runs()[0].label}
    assert carry_out(smoke, fake, tmp_path) == 1
    assert "left no valid run of the planned settings and code" in capsys.readouterr().out


def test_an_interrupted_run_ends_the_reproduction(
    smoke: Plan, fake: FakeRuns, tmp_path: Path
) -> None:
    fake.bad = {smoke.runs()[2].label: 130}
    with pytest.raises(KeyboardInterrupt):
        carry_out(smoke, fake, tmp_path)
    assert len(fake.started) == 3
    fake.bad = {}
    assert carry_out(smoke, fake, tmp_path) == 0
    assert len(fake.started) == 3 + 4


def test_a_first_look_is_drawn_after_the_first_repetition(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = make_plan("laptop", ["fig8"])
    fake = FakeRuns(plan)
    monkeypatch.setattr(reproduce, "finished_fingerprints", lambda *_: fake.finished)
    assert carry_out(plan, fake, tmp_path) == 0
    assert fake.draws == 2


def test_a_profile_names_the_figures_it_includes() -> None:
    smoke, laptop, full = map(figures_of, ("smoke", "laptop", "full"))
    assert smoke == [*(f"fig{n}" for n in range(1, 10)), "planner_speed", "table1"]
    assert set(laptop) == set(known_figures()) - {"table1_plda", "failover"}
    assert full == known_figures()


def test_the_command_line_refuses_in_one_line() -> None:
    command = [sys.executable, "-m", "experiments.reproduce", "--profile", "paper"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr == (
        "profile paper: IMAGENET: must be given, the path of your data:"
        " make reproduce-figures IMAGENET=/path ...\n"
    )


CHILD = """
import signal, sys, time
from experiments.child import run_child
from experiments.interrupts import interrupt_once
signal.signal(signal.SIGHUP, signal.SIG_IGN if "nohup" in sys.argv else signal.SIG_DFL)
interrupt_once()
try:
    run_child([sys.executable, "-c", sys.argv[1]])
except KeyboardInterrupt:
    sys.exit(130)
"""
CLEANS_UP = """
import sys, time
try:
    print("up", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.3)
    print("cleaned", flush=True)
"""


def parent_of_child(*options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, CLEANS_UP, *options]
    parent = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "up\n"
    return parent


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_waits_for_the_childs_clean_up(number: signal.Signals) -> None:
    parent = parent_of_child()
    parent.send_signal(number)
    out, _ = parent.communicate(timeout=20)
    assert (out, parent.returncode) == ("cleaned\n", 130)


def test_a_hang_up_is_ignored_under_nohup() -> None:
    parent = parent_of_child("nohup")
    parent.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        parent.wait(timeout=1)
    parent.terminate()
    out, _ = parent.communicate(timeout=20)
    assert (out, parent.returncode) == ("cleaned\n", 130)


def test_a_child_does_not_outlive_its_parent() -> None:
    parent = parent_of_child()
    start_s = time.monotonic()
    parent.kill()
    assert parent.stdout is not None
    assert parent.stdout.read() == "cleaned\n"  # ends once the child has closed it
    assert time.monotonic() - start_s < 20
