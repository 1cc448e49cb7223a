"""Kinds of workloads and the settings that they make of their fields."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.build import build_workload
from experiments.overrides import validate
from experiments.workload_class import workload_class
from workloads import kinds
from workloads.base import WorkloadError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", kinds.names())
def test_settings_are_the_fields_of_the_workload(kind: str) -> None:
    made = {field.name for field in dataclasses.fields(workload_class(kind))}
    own = {field.name for field in dataclasses.fields(kinds.workload_class(kind))}
    common = {"name", "kind", "framework", "targets", "timing_only"}
    assert made == (own | common) - {"seed", "cache_dir"}


def test_a_path_becomes_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for part in ("train", "val"):
        (tmp_path / "images" / part / "n01").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    asked = ["workload=resnet_imagenet", "workload.data_dir=images"]
    (config,) = validate(asked, multirun=False)
    workload = build_workload(config.workload, config.seed)
    assert workload.data == f"images of {tmp_path / 'images'}"


def test_a_large_workload_is_fitted_to_two_cores() -> None:
    (small,) = validate(["workload=resnet_synthetic"], multirun=False)
    (large,) = validate(["workload=resnet_synthetic", "cluster=gpus"], multirun=False)
    asked = ["workload=resnet_synthetic", "cluster.workers=3"]
    (told,) = validate(asked, multirun=False)
    assert (small.cluster.workers, small.workload.side) == (2, 64)
    assert (large.cluster.workers, large.workload.side) == (16, 224)
    assert told.cluster.workers == 3


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(
        WorkloadError, match=r"workload\.kind=svm: must be one of plda, resnet, imag"
    ):
        kinds.workload_class("svm")


def test_settings_are_read_without_a_framework() -> None:
    program = (
        "import sys\n"
        "from experiments.overrides import validate\n"
        "for name in ('resnet_synthetic', 'resnet_mnist5k', 'plda_sotu'):\n"
        "    validate([f'workload={name}'], multirun=False)\n"
        "loaded = {'torch', 'tensorflow', 'keras', 'numba'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
