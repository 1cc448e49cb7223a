"""A real MLflow store for made-up runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from mlflow import MlflowClient

from analysis import style
from tests.figures.made_up import LEVELS, POLICIES, MadeUpRun, Store, target_of


@pytest.fixture(autouse=True)
def _style() -> Iterator[None]:
    """The figures' own style; no figure outlives its test."""
    style.apply()
    yield
    plt.close("all")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store, made once: its migration takes seconds."""
    folder = tmp_path_factory.mktemp("template")
    MlflowClient(f"sqlite:///{folder}/mlflow.db").search_experiments()
    return folder / "mlflow.db"


@pytest.fixture
def store(template: Path, tmp_path: Path) -> Store:
    (tmp_path / "mlflow.db").write_bytes(template.read_bytes())
    return Store(tmp_path)


@pytest.fixture
def made_up_runs() -> list[MadeUpRun]:
    """Both workloads on both clusters, three policies, three seeds."""
    return [
        MadeUpRun(workload, cluster, policy, seed, target=target_of(workload))
        for workload in LEVELS
        for cluster in ("laptop", "laptop_contended")
        for policy in POLICIES
        for seed in range(3)
    ]
