"""The import rules of pyproject.toml hold, and break when they should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ["actions", "events", "payload", "planning", "policies", "scheduler", "store", "topology"]
SUMS = ["momentum", "treesum", "view"]
SAVED = ["checkpoints", "counting", "pickling"]
EDGES = ["api", "compiled", "keras", "plan", "torch"]
FOLDERS = ("engines", "engines/mpi", "engines/roles", "engines/virtual", "emulation")
PACKAGES = {
    "mlfabric": [
        "errors",
        *FOLDERS,
        "engines/plan",
        "engines/snapshots",
        *CORE,
        *SUMS,
        *SAVED,
        *EDGES,
    ],
    "workloads": [],
    "experiments": ["tracking"],
    "analysis": ["load"],
}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with our packages, empty, under our rules."""
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    for package, modules in PACKAGES.items():
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
        for module in modules:
            path = tmp_path / package / module
            if module in FOLDERS:
                path.mkdir()
                (path / "__init__.py").touch()
            else:
                path.with_suffix(".py").touch()
    return tmp_path


def test_the_projects_imports_keep_the_rules() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout


def test_an_empty_project_keeps_the_rules(project: Path) -> None:
    assert lint_imports(project).returncode == 0


@pytest.mark.parametrize(
    ("file", "statement"),
    [
        ("mlfabric/errors.py", "import workloads"),
        ("mlfabric/errors.py", "import experiments"),
        ("mlfabric/errors.py", "import mlfabric.engines.mpi"),
        ("mlfabric/emulation/hosts.py", "import mlfabric.engines"),
        ("mlfabric/errors.py", "def f():\n    import torch"),
        ("mlfabric/emulation/hosts.py", "import mpi4py.MPI"),
        ("experiments/rank.py", "from mpi4py import MPI"),
        ("workloads/lda.py", "import mlfabric.errors"),
        ("workloads/lda.py", "import hydra"),
        ("analysis/stats.py", "import experiments"),
        ("analysis/stats.py", "import mlfabric"),
        ("analysis/stats.py", "import mlfabric.planning"),
        ("analysis/stats.py", "import mlflow"),
        ("mlfabric/planning.py", "import mlfabric.plan"),
        ("experiments/run.py", "import mlflow"),
        ("mlfabric/scheduler.py", "import time"),
        ("mlfabric/treesum.py", "import time"),
        ("mlfabric/engines/mpi/__init__.py", "import mlfabric.api"),
        ("mlfabric/api.py", "import torch"),
        ("mlfabric/planning.py", "from pathlib import Path"),
        ("mlfabric/policies.py", "import threading"),
    ],
)
def test_a_forbidden_import_is_found(project: Path, file: str, statement: str) -> None:
    (project / file).write_text(f"{statement}\n")
    result = lint_imports(project)
    assert result.returncode == 1
    assert "BROKEN" in result.stdout


@pytest.mark.parametrize(
    ("file", "statement"),
    [
        ("mlfabric/engines/mpi/ring.py", "from mpi4py import MPI"),
        ("experiments/run.py", "import hydra, workloads, analysis.load, mlfabric.engines"),
        ("experiments/tracking.py", "import mlflow"),
        ("analysis/load.py", "import mlflow"),
    ],
)
def test_a_permitted_import_passes(project: Path, file: str, statement: str) -> None:
    (project / file).write_text(f"{statement}\n")
    result = lint_imports(project)
    assert result.returncode == 0, result.stdout


def test_the_core_imports_without_frameworks_or_mpi() -> None:
    """What a scheduler or server rank loads must stay light."""
    heavy = ["torch", "tensorflow", "mpi4py", "hydra", "mlflow", "pandas"]
    code = f"import sys, mlfabric.scheduler; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_a_policy_is_known_without_loading_what_it_plans_with() -> None:
    """Every rank asks the policy where it is hosted; one alone plans, and compiles."""
    code = "import sys, mlfabric.policies.mlfabric_a; print('numba' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"


VIRTUAL_RUN = """
import sys
from experiments.execute_virtual import time_only
from experiments.overrides import validate

asked = ["engine=virtual", "cluster=paper", "cluster.workers=3", "workload.timing_only=true"]
(config,) = validate([*asked, "engine.max_seconds=2", "policy=mlfabric_a"], multirun=False)
assert time_only(config)[-1]["applied"] > 0
print([name for name in ("mpi4py", "torch") if name in sys.modules])
"""


def test_a_run_on_the_virtual_clock_needs_no_mpi() -> None:
    """Nor a training framework, where it only keeps time."""
    result = subprocess.run(
        [sys.executable, "-c", VIRTUAL_RUN], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
