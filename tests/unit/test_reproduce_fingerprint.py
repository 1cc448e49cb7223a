"""Fingerprints: equal for equal runs, different for anything that shapes one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments import fingerprint as module
from experiments.fingerprint import code_digest, fingerprint

SETTINGS = {
    "seed": 0,
    "experiment": "fig7",
    "tracking": {"uri": "sqlite:///a.db", "experiment": "mlfabric"},
    "cluster": {"workers": 8, "compute_s": 0.3},
}


def of(**changes: object) -> str:
    return fingerprint(json.dumps(SETTINGS | changes))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for file in ("mlfabric/a.py", "workloads/b.py", "experiments/c.py", "experiments/reproduce.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("x = 1\n")
    return tmp_path


def test_key_order_and_labels_do_not_matter() -> None:
    backwards = fingerprint(json.dumps(dict(reversed(SETTINGS.items())), indent=2))
    assert backwards == of()
    assert of(experiment="adhoc", tracking={"uri": "sqlite:///b.db"}) == of()


@pytest.mark.parametrize(
    "changes", [{"seed": 1}, {"cluster": {"workers": 9, "compute_s": 0.3}}, {"network": {}}]
)
def test_settings_matter(changes: dict[str, object]) -> None:
    assert of(**changes) != of()


def test_what_a_trace_says_matters_and_not_where_it_lies(tmp_path: Path) -> None:
    here, there = tmp_path / "trace.csv", tmp_path / "same.csv"
    for path in (here, there):
        path.write_text("time_s,host,factor\n1.0,w1,0.5\n")
    before, elsewhere = (of(network={"trace_file": str(path)}) for path in (here, there))
    assert before == elsewhere != of(network={"trace_file": None})
    here.write_text("time_s,host,factor\n1.0,w1,0.25\n")
    assert of(network={"trace_file": str(here)}) != before


@pytest.mark.parametrize("file", ["mlfabric/a.py", "workloads/b.py", "experiments/c.py"])
def test_code_that_shapes_a_run_matters(project: Path, file: str) -> None:
    before = code_digest(project)
    (project / file).write_text("x = 2\n")
    code_digest.cache_clear()
    assert code_digest(project) != before


def test_a_new_or_renamed_file_matters(project: Path) -> None:
    before = code_digest(project)
    (project / "mlfabric" / "a.py").rename(project / "mlfabric" / "z.py")
    code_digest.cache_clear()
    assert code_digest(project) != before


def test_planning_and_analysis_do_not_matter(project: Path) -> None:
    before = code_digest(project)
    (project / "experiments" / "reproduce.py").write_text("x = 2\n")
    (project / "analysis").mkdir()
    (project / "analysis" / "d.py").write_text("x = 2\n")
    code_digest.cache_clear()
    assert code_digest(project) == before


def test_package_versions_matter(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = code_digest(project)
    monkeypatch.setattr(module, "version", lambda package: "0.0")
    code_digest.cache_clear()
    assert code_digest(project) != before
    code_digest.cache_clear()


def test_what_lies_in_a_folder_of_data_matters(tmp_path: Path) -> None:
    (tmp_path / "train" / "n01").mkdir(parents=True)
    (tmp_path / "docword.txt").write_text("3\n")
    asked = {"workload": {"name": "plda_nytimes", "data_dir": str(tmp_path)}}
    seen = [of(**asked), of(**asked)]
    assert seen[0] == seen[1]
    (tmp_path / "docword.txt").write_text("33\n")
    seen.append(of(**asked))
    (tmp_path / "train" / "n01" / "a.JPEG").touch()
    seen.append(of(**asked))
    assert len(set(seen)) == 3
    assert of(workload={"data_dir": None}) == of(workload={"data_dir": None})
