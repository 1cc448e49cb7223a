"""MLflow's own pages on a real sweep: policies first, comparison in a few clicks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mlflow import MlflowClient
from playwright.sync_api import expect

from experiments.paths import ROOT
from experiments.tracking_views import LEADING, POLICIES, view_address


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a sweep of four runs."""
    folder = tmp_path_factory.mktemp("sweep")
    sweep = [
        *["engine=virtual", "cluster=paper", "workload=resnet_digits", "engine.max_seconds=5"],
        *["policy=ring_allreduce,mlfabric_a", "network=ns1", "compute=cs1,cs2"],
        *[f"tracking.uri=sqlite:///{folder}/mlflow.db", f"hydra.sweep.dir={folder}/sweep"],
    ]
    command = [sys.executable, "-m", "experiments.run", "-m", *sweep]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=170)
    return folder


@pytest.mark.timeout(300)
def test_runs_are_found_by_policy_and_compared(folder: Path, open_page, serve) -> None:
    client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
    experiment = client.get_experiment_by_name("mlfabric")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], "tags.kind = 'run'")
    (parent,) = client.search_runs([experiment.experiment_id], "tags.kind = 'comparison'")
    with serve(folder) as address:
        page = open_page(1400, 900)
        page.goto(f"{address}/{view_address(experiment.experiment_id, POLICIES)}")
        for run in runs:  # all in sight, none nested in the comparison
            page.locator(f'.ag-row[row-id="{run.info.run_id}"] .ag-checkbox-input').check()
        for name in LEADING:
            expect(page.get_by_role("columnheader", name=name).first).to_be_visible()
        page.get_by_test_id("runs-compare-button").click()
        page.wait_for_url(re.compile(r"/compare-runs\?"))
        expect(page.get_by_role("heading", name=f"Comparing {len(runs)} Runs")).to_be_visible()
        expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
        _, _, text = page.locator("body").inner_text().rpartition("Parameters")
        places = [text.index(name) for name in (*LEADING, "cluster.bandwidth_bytes_per_s")]
        assert places == sorted(places)
        if shot := os.environ.get("MLFABRIC_SCREENSHOT"):
            page.screenshot(path=shot)
        page.goto(f"{address}/#/experiments/{experiment.experiment_id}/runs/{parent.info.run_id}")
        expect(page.get_by_text("throughput/over ring_allreduce").first).to_be_visible()
