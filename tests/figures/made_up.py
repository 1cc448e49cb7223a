"""Made-up runs, and a real MLflow store to record them in."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow import MlflowClient

SERVERS = {"servers": 1, "colocated": False, "replication": None, "fault": "none"}
POLICIES = ("mlfabric_a", "ring_allreduce", "async_ps")
LEVELS = {
    "resnet_mnist5k": ("heldout_loss", 2.3, 0.15),
    "plda_sotu": ("heldout_loglik", -9.0, -7.6),
}
SPEEDS = {"mlfabric_a": 6.0, "ring_allreduce": 14.0, "async_ps": 9.0}


@dataclass
class MadeUpRun:
    """One run: an exponential approach to its final level, transfers at regular times."""

    workload: str = "resnet_mnist5k"
    cluster: str = "laptop"
    policy: str = "mlfabric_a"
    seed: int = 0
    aggregation: str | None = None
    status: str = "finished"
    mlflow_status: str = "FINISHED"
    target: float | None = 0.69
    misses: bool = False
    final_is_finite: bool = True
    elapsed_s: float = 40.0
    slow_messages: int = 4
    fast_messages: int = 80
    changes: list[tuple[float, str, float]] = field(
        default_factory=lambda: [(10.0, "w1", 0.1), (12.0, "w1", 1.0)]
    )

    @property
    def fingerprint(self) -> str:
        names = (self.workload, self.cluster, self.policy, self.aggregation or "", self.seed)
        return "-".join(map(str, names))

    @property
    def cell(self) -> dict[str, Any]:
        names = {"workload": self.workload, "cluster": self.cluster, "policy": self.policy}
        return {**names, "network": "ns1", "compute": "cs2", "seed": self.seed}

    @property
    def planned(self) -> dict[str, Any]:
        """Its row in plan.json."""
        details = {"aggregation": self.aggregation, "engine": "mpi", "delay_bound": 14}
        return {"fingerprint": self.fingerprint, **self.cell, **details, "workers": 8, **SERVERS}

    def metrics(self) -> pd.DataFrame:
        name, start, end = LEVELS[self.workload]
        rng = np.random.default_rng([self.seed, len(self.policy)])
        times = np.arange(0.0, self.elapsed_s, 2.0)
        speed = SPEEDS[self.policy] * rng.uniform(0.85, 1.15)
        noise = rng.normal(0, 0.02, len(times)) * abs(end - start)
        values = end + (start - end) * np.exp(-times / speed) + noise
        return pd.DataFrame({"version": range(len(times)), "elapsed_s": times, name: values})

    def summary(self) -> dict[str, Any]:
        metrics = self.metrics()
        name = LEVELS[self.workload][0]
        return {
            **self.cell,
            "status": self.status,
            "metric_name": name,
            "final_metric": metrics[name].iloc[-1] if self.final_is_finite else None,
            "elapsed_s": self.elapsed_s,
            "target": self.target,
            "engine": "mpi",
            "updates_applied": 120,
            "delay": {"mean": 3.5, "p95": 7.0, "max": 9.0, "bound": 14},
            "time_to_target_s": self._time_to_target(metrics, name),
        }

    def trace(self) -> pd.DataFrame:
        """Slow ones while w1 is slowed down (10 s to 12 s), fast ones after, models."""
        slow = [(10.0 + 2 * i / (self.slow_messages + 1), "update", "w1") for i in range(1, 5)]
        slow = slow[: self.slow_messages]
        fast = [(20.0 + i / 10, "update", "w1") for i in range(self.fast_messages)]
        models = [(11.0, "model", "server")] * 7
        frame = pd.DataFrame(slow + fast + models, columns=["started_s", "kind", "src"])
        return frame.assign(dst="server", next_hop=None)

    def _time_to_target(self, metrics: pd.DataFrame, name: str) -> float | None:
        if self.target is None or self.misses:
            return None
        lower = LEVELS[self.workload][2] < LEVELS[self.workload][1]
        values = metrics[name]
        hit = metrics[values <= self.target if lower else values >= self.target]
        return None if hit.empty else float(hit["elapsed_s"].iloc[0])


class Store:
    """A SQLite MLflow store in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uri = f"sqlite:///{folder}/mlflow.db"
        self.client = MlflowClient(self.uri)
        self._experiment = self.client.create_experiment("mlfabric", f"file://{folder}/artifacts")
        self._clock_ms = 1_000

    def record(self, run: MadeUpRun) -> str:
        """Record a run with everything it leaves behind; returns its id."""
        run_id = self._created(run)
        folder = self.folder / "made" / run_id
        folder.mkdir(parents=True)
        self._write(run, folder)
        self.client.log_artifacts(run_id, str(folder))
        self.client.set_terminated(run_id, run.mlflow_status)
        return run_id

    def record_empty(self, run: MadeUpRun) -> None:
        """Record a run that failed before it wrote anything."""
        self.client.set_terminated(self._created(run), "FAILED")

    def plan(self, path: Path, runs: list[MadeUpRun], figures: tuple[str, ...]) -> Path:
        cells = [run.planned for run in runs]
        content = {
            "profile": "smoke",
            "tracking_uri": self.uri,
            "tracking_experiment": "mlfabric",
            "figures": dict.fromkeys(figures, cells),
        }
        path.write_text(json.dumps(content))
        return path

    def _created(self, run: MadeUpRun) -> str:
        self._clock_ms += 1_000
        tags = {"fingerprint": run.fingerprint}
        created = self.client.create_run(self._experiment, start_time=self._clock_ms, tags=tags)
        run_id: str = created.info.run_id
        return run_id

    def _write(self, run: MadeUpRun, folder: Path) -> None:
        (folder / "run.json").write_text(json.dumps(run.summary()))
        cluster = {"bandwidth_bytes_per_s": 3.125e6, "workers": 8, "servers": 1, "colocated": False}
        config = {
            "cluster": cluster,
            "policy": {"name": run.policy},
            "replication": {"name": "none"},
            "fault": {"name": "none"},
        }
        if run.aggregation is not None:
            config["policy"]["aggregation"] = run.aggregation
        (folder / "config.json").write_text(json.dumps(config))
        run.metrics().to_parquet(folder / "metrics.parquet")
        run.trace().to_parquet(folder / "trace.parquet")
        changes = pd.DataFrame(run.changes, columns=["time_s", "host", "factor"])
        changes.to_csv(folder / "network_applied.csv", index=False)


def target_of(workload: str) -> float:
    """A level that every made-up run reaches, three quarters of the way."""
    _, start, end = LEVELS[workload]
    return round((start + 3 * end) / 4, 2)
