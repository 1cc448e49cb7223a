"""A small reproduction for real: report, summary.json and MLflow tell the same numbers."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest
from mlflow import MlflowClient

from analysis.report import interval_shown, shown
from experiments import profiles
from experiments.comparison import flat_numbers
from experiments.plan_runs import make_plan
from experiments.reproduce import Reproduction


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, MlflowClient]:
    """Two repetitions of the halving claim, with a store of its own."""
    folder = tmp_path_factory.mktemp("reproduced")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    (folder / "profile").mkdir()
    (folder / "profile" / "tiny.yaml").write_text(
        "runs: [{cluster: paper, seeds: [0, 1], max_seconds: 20.0,"
        f" overrides: ['tracking.uri={uri}', cluster.workers=6, workload.targets.paper=2.0]}}]"
    )
    with pytest.MonkeyPatch.context() as patch:
        real = profiles.choices
        patch.setattr(profiles, "CONF", folder)
        patch.setattr(profiles, "choices", lambda g: ["tiny"] if g == "profile" else real(g))
        plan = make_plan("tiny", ["claim_halving"])
    assert Reproduction(plan, results=folder).carry_out() == 0
    return folder / "tiny", MlflowClient(uri)


def test_mlflow_has_the_numbers_of_the_summary(reproduced: tuple[Path, MlflowClient]) -> None:
    folder, client = reproduced
    summary = json.loads((folder / "summary.json").read_text())
    wanted = flat_numbers(summary["figures"])
    experiments = [one.experiment_id for one in client.search_experiments()]
    (told,) = client.search_runs(experiments, "tags.kind = 'comparison'")
    assert told.data.metrics == pytest.approx(wanted)
    assert any("/ratio" in name for name in wanted)
    assert len(client.search_runs(experiments, f"tags.compared_by = '{told.info.run_id}'")) == 4


def test_the_report_has_the_numbers_of_the_summary(reproduced: tuple[Path, MlflowClient]) -> None:
    folder, _ = reproduced
    claims = json.loads((folder / "summary.json").read_text())["claims"]
    html = (folder / "report.html").read_text()
    assert claims
    cells = {
        name: [unescape(text).strip() for text in re.findall(rf'data-name="{name}">([^<]*)<', html)]
        for name in ("ours", "95 % interval", "n")
    }
    for claim in claims:
        place = cells["ours"].index(shown(claim["ours"]))
        assert cells["95 % interval"][place] == interval_shown(claim["ci95"])
        assert cells["n"][place].startswith(str(claim["n"]))
