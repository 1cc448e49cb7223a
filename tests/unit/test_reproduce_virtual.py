"""Reproducing on the virtual clock: several runs at a time, never beside real ranks."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from experiments import profiles, reproduce
from experiments.plan_runs import Plan, make_plan
from experiments.reproduce import Pace
from tests.unit.fake_runs import FakeRuns, carry_out


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Two repetitions of fig8 on real ranks and of the cells of one setting of table1."""
    text = """
runs:
  - {cluster: laptop, workload: plda_sotu, seeds: [0, 1], max_seconds: 9.0}
  - cluster: paper
    figure: table1
    seeds: [0, 1]
    max_seconds: 5.0
    overrides: [workload.timing_only=true]
"""
    folder = tmp_path_factory.mktemp("conf")
    (folder / "profile").mkdir()
    (folder / "profile" / "mixed.yaml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profiles, "CONF", folder)
        real = profiles.choices
        patch.setattr(profiles, "choices", lambda g: ["mixed"] if g == "profile" else real(g))
        return make_plan("mixed", ["fig8", "table1"])


def test_cells_of_table1_tell_variants_apart(mixed: Plan) -> None:
    cells = [run.cell() for run in mixed.figures["table1"]]
    assert len(cells) == 2 * 4 * 9
    keys = ("network", "compute", "policy", "aggregation", "seed")
    assert len({tuple(cell[key] for key in keys) for cell in cells}) == len(cells)
    for cell in cells:
        assert (cell["engine"], cell["workers"]) == ("virtual", 30)
        assert (cell["aggregation"] is None) == (cell["policy"] != "mlfabric_a")
        assert cell["delay_bound"] == (58 if cell["policy"] == "mlfabric_a" else None)
    assert all(run.config.workload.timing_only for run in mixed.figures["table1"])
    labels = {run.label for run in mixed.runs()}
    assert len(labels) == len(mixed.runs())
    name = "resnet_digits mlfabric_a pipelined paper ns2/cs1 (30 workers, delay bound 58) seed 0"
    assert name in labels
    command = mixed.figures["table1"][0].command
    assert "policy=mlfabric_a policy.aggregation=paper" in command
    assert command.endswith("engine.max_seconds=5.0 workload.timing_only=true seed=0")


def mixed_runs(mixed: Plan, monkeypatch: pytest.MonkeyPatch) -> FakeRuns:
    fake = FakeRuns(mixed)
    monkeypatch.setattr(
        reproduce, "finished_fingerprints", lambda uri, name, wanted: fake.finished & set(wanted)
    )
    return fake


def test_virtual_runs_come_before_ranks_and_never_beside_them(
    mixed: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = mixed_runs(mixed, monkeypatch)
    assert carry_out(mixed, fake, tmp_path) == 0
    assert len(fake.started) == len(mixed.runs()) == 2 * (3 + 36)
    kinds = [(label[-1], label.startswith("resnet_digits")) for label in fake.started]
    groups = [kind for kind, _ in itertools.groupby(kinds)]
    assert groups == [("0", True), ("0", False), ("1", True), ("1", False)]
    assert fake.draws == 2


def test_a_failing_virtual_run_is_named_with_its_command(
    mixed: Plan,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake = mixed_runs(mixed, monkeypatch)
    bad, lost = mixed.figures["table1"][0], mixed.figures["table1"][2]
    fake.bad, fake.silent = {bad.label: 1}, {lost.label}
    assert carry_out(mixed, fake, tmp_path) == 1
    lines = capsys.readouterr().out.splitlines()
    assert f"{bad.label} said this" in lines
    assert lines[-3:] == [
        "2 runs failed; repeat each with:",
        f"  {bad.command}   # ended with status 1",
        f"  {lost.command}   # {reproduce.NO_VALID_RUN}",
    ]
    assert len(fake.started) == len(mixed.runs())


def test_an_interrupted_virtual_run_ends_the_reproduction(
    mixed: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = mixed_runs(mixed, monkeypatch)
    fake.bad = {mixed.figures["table1"][4].label: 130}
    with pytest.raises(KeyboardInterrupt):
        carry_out(mixed, fake, tmp_path)


def test_the_pace_is_learned_for_each_engine(mixed: Plan) -> None:
    pace = Pace(abreast=2)
    ranks = [run for run in mixed.runs() if not run.config.virtual][:3]
    virtual = [run for run in mixed.runs() if run.config.virtual][:4]
    pace.learn(ranks[0], 9.0 + 5.0)
    pace.learn(virtual[0], 3.0)
    assert pace.left_s(ranks) == pytest.approx(3 * (9.0 + 5.0))
    assert pace.left_s(virtual) == pytest.approx(4 * 3.0 / 2)
