"""The walk-through of docs/add-a-workload.md as it stands there, and from another package."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.paths import ROOT
from tests.support.packages import installed

PAGE = (ROOT / "docs/add-a-workload.md").read_text()
CODE, KIND = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(SETTINGS,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
PACKAGES = ("mlfabric", "workloads", "experiments", "analysis", "conf")


def run(
    project: Path, results: Path, *overrides: str, path: str = ""
) -> subprocess.CompletedProcess:
    settings = ["workload=softmax_digits", "engine=virtual", "engine.max_seconds=20", *overrides]
    folders = [f"hydra.run.dir={results}/run", f"tracking.uri=sqlite:///{results}/mlflow.db"]
    return subprocess.run(
        [sys.executable, "-m", "experiments.run", *settings, *folders],
        cwd=project,
        env={**os.environ, "PYTHONPATH": f"{project}{path}"},
        capture_output=True,
        text=True,
        timeout=150,
    )


def assert_learned(done: subprocess.CompletedProcess, results: Path) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((results / "run" / "run.json").read_text())
    assert found["workload"] == "softmax_digits"
    assert found["final_metric"] < 0.6
    assert found["time_to_target_s"] is not None


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project with the workload added, as the page says."""
    folder = tmp_path / "project"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name)
    (folder / "workloads/softmax.py").write_text(CODE)
    kinds = folder / "workloads/kinds.py"
    marked = "_OURS = {\n"
    assert marked in kinds.read_text()
    kinds.write_text(kinds.read_text().replace(marked, marked + KIND))
    (folder / "conf/workload/softmax_digits.yaml").write_text(SETTINGS)
    return folder


def test_a_class_and_a_file_of_settings_make_a_workload(tmp_path: Path, project: Path) -> None:
    assert_learned(run(project, tmp_path), tmp_path)
    refused = run(project, tmp_path / "again", "workload.batch_size=0")
    assert refused.returncode == 2
    assert refused.stderr.strip() == "workload.batch_size=0: must be an integer, at least 1"


def test_a_package_outside_brings_a_workload(tmp_path: Path) -> None:
    files = {"softmax.py": CODE, "conf/workload/softmax_digits.yaml": SETTINGS}
    points = "[mlfabric.workloads]\nsoftmax = my_workloads.softmax:Softmax\n"
    site = installed(tmp_path / "site", "my_workloads", files, points)
    assert_learned(run(ROOT, tmp_path, path=f":{site}"), tmp_path)
