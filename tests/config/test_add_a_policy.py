"""The walk-through of docs/add-a-policy.md as it stands there, and from another package."""

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

PAGE = (ROOT / "docs/add-a-policy.md").read_text()
CODE, SETTINGS = (
    re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[1] for language in ("python", "yaml")
)
PACKAGES = ("mlfabric", "workloads", "experiments", "analysis", "conf")


def run(project: Path, results: Path, *overrides: str, path: str = "") -> dict:
    settings = ["policy=async_groups", "engine=virtual", "engine.max_seconds=5", *overrides]
    folders = [f"hydra.run.dir={results}/run", f"tracking.uri=sqlite:///{results}/mlflow.db"]
    done = subprocess.run(
        [sys.executable, "-m", "experiments.run", *settings, *folders],
        cwd=project,
        env={**os.environ, "PYTHONPATH": f"{project}{path}"},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((results / "run" / "run.json").read_text())


def test_one_file_of_code_and_one_of_settings_make_a_policy(tmp_path):
    project = tmp_path / "project"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, project / name)
    (project / "mlfabric/policies/async_groups.py").write_text(CODE)
    (project / "conf/policy/async_groups.yaml").write_text(SETTINGS)
    found = run(project, tmp_path, "workload=plda_sotu", "cluster.workers=3")
    assert found["policy"] == "async_groups"
    assert found["updates_applied"] > 10
    assert found["updates_applied"] % 2 == 0


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with an installed package that brings the policy."""
    files = {"async_groups.py": CODE, "conf/policy/async_groups.yaml": SETTINGS}
    points = "[mlfabric.policies]\nasync_groups = my_policies.async_groups\n"
    return installed(tmp_path / "site", "my_policies", files, points)


def test_a_package_outside_brings_a_policy(tmp_path, outside):
    found = run(ROOT, tmp_path, "cluster.workers=4", "policy.count=4", path=f":{outside}")
    assert found["policy"] == "async_groups"
    assert found["updates_applied"] > 8
    assert found["updates_applied"] % 4 == 0
