"""The study on GPUs, as far as it goes without any."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from experiments import gpus


def test_median_and_percentile_of_a_sample() -> None:
    assert gpus.quantiles([float(value) for value in range(100)]) == {"median": 49.5, "p95": 95.0}
    assert gpus.quantiles([]) is None


def test_use_of_links_is_a_share_of_what_they_could_carry() -> None:
    moved = {
        "server": {"ingress": 50, "egress": 25},
        "w1": {"ingress": 10, "egress": 30},
        "w2": {"ingress": 20, "egress": 40},
    }
    assert gpus.link_use(moved, 100.0) == {
        "server_ingress": 0.5,
        "server_egress": 0.25,
        "mean_of_others": 0.25,
    }
    assert gpus.link_use({"w1": moved["w1"]}, 100.0)["server_ingress"] == 0


@pytest.mark.parametrize(
    ("option", "known"),
    [
        ("--policies", "ring_allreduce, async_ps, mlfabric_a, mlfabric_s"),
        ("--settings", "none, NS1"),
    ],
)
def test_an_unknown_name_is_told_with_those_that_are_known(option, known, capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        gpus.main([option, "nonsense"])
    assert f"{option}: nonsense: must be one of {known}" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_nothing_is_begun(tmp_path: Path, capsys) -> None:
    assert gpus.main(["--results", str(tmp_path / "gpus")]) == 2
    assert capsys.readouterr().err == "experiments.gpus: PyTorch sees no GPU here\n"
    assert not (tmp_path / "gpus").exists()


def test_a_folder_without_wheels_is_told_before_pip_starts(
    tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.delattr(gpus.subprocess, "run")
    settings = ["--packages", str(tmp_path), "--results", str(tmp_path / "gpus")]
    assert gpus.main(settings) == 2
    assert f"--packages {tmp_path}: must hold wheels" in capsys.readouterr().err


def test_arguments_are_passed_on_without_the_packages() -> None:
    asked = ["--seconds", "5", "--packages", "wheels", "--policies", "async_ps"]
    assert gpus._without_packages(asked) == ["--seconds", "5", "--policies", "async_ps"]
    assert gpus._without_packages(["--packages=wheels", "--mpi", "x"]) == ["--mpi", "x"]
