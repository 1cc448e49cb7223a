"""The one place that writes to MLflow: one MLflow run per experiment run, in one store."""

from __future__ import annotations

import fcntl
import logging
import math
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when MLflow is imported
# MLflow would ask a server that is not there for four minutes; so it does for half a minute.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "4")

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from sqlalchemy.exc import SQLAlchemyError

from experiments.errors import RunFailed
from experiments.model_report import FOLDER
from experiments.sections import TrackingConfig
from experiments.tracking_views import (
    COMPARED_BY,
    COMPARISON,
    HEADLINE,
    KIND,
    RUN,
    experiment_tags,
    runs_address,
)

VALUE_LIMIT = 6000  # characters of a parameter that every store takes
_METRICS_A_BATCH = 1000
_PARAMS_A_BATCH = 100
_PATIENCE_S = 60.0
_SQLITE = "sqlite:///"

ARTIFACTS = (
    *("config.json", "run.json", "environment.json", "calibration.json"),
    *("trace.parquet", "updates.parquet", "computations.parquet", "metrics.parquet"),
    "distances.parquet",
    *("network_trace.csv", "network_applied.csv"),
)

T = TypeVar("T")


def create_store(tracking: TrackingConfig) -> str:
    """Create the store and the experiment where they are missing; returns the experiment's id.

    Call it before any run starts: launches that come at once wait for each other here.
    Raises RunFailed when the store cannot be reached.
    """
    for name in ("alembic", "mlflow"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with _failing_as_run(tracking.store), _alone(tracking.store):
        experiment_id = _experiment_id(tracking)
        _set_views(MlflowClient(tracking.store), experiment_id)
        return experiment_id


class Recorder:
    """The MLflow run of one experiment run; every method raises RunFailed if the store fails."""

    def __init__(
        self,
        tracking: TrackingConfig,
        name: str,
        tags: Mapping[str, str],
        params: dict[str, str],
        run_id: str | None = None,
    ) -> None:
        """Create the run, or go on with the one of that id, where it is still there."""
        self._uri = tracking.store
        self._start_ms = time.time_ns() // 1_000_000
        experiment_id = create_store(tracking)
        with _failing_as_run(self._uri):
            self._client = MlflowClient(self._uri)
            told = {KIND: RUN, **tags}
            if run_id is not None and self._goes_on(run_id, told):
                return
            create = partial(self._client.create_run, experiment_id, self._start_ms, told)
            self.run_id: str = patiently(partial(create, run_name=name)).info.run_id
            items = [Param(key, value[:VALUE_LIMIT]) for key, value in params.items()]
            for batch in _batches(items, _PARAMS_A_BATCH):
                self._log_batch(params=batch)

    def _goes_on(self, run_id: str, tags: Mapping[str, str]) -> bool:
        try:
            before = patiently(partial(self._client.get_run, run_id))
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return False
        if before.info.lifecycle_stage != "active":
            return False
        self.run_id, self._start_ms = run_id, before.info.start_time
        patiently(partial(self._client.update_run, run_id, status="RUNNING"))
        self._log_batch(tags=[RunTag(key, value) for key, value in tags.items()])
        return True

    def log_scores(self, metrics: pd.DataFrame) -> None:
        """Log every snapshot's metrics: step = version, time = start of the run + its clock."""
        names = [name for name in metrics.columns if name not in ("version", "elapsed_s")]
        rows = metrics.to_dict("records")
        self._log_metrics(
            self._metric(name, row[name], row["elapsed_s"], row["version"])
            for row in rows
            for name in names
        )

    def log_distances(self, distances: pd.DataFrame) -> None:
        """Log how far a replica was from the server at each snapshot: step = version."""
        self._log_metrics(
            self._metric("divergence", row["distance"], row["elapsed_s"], row["version"])
            for row in distances.to_dict("records")
        )

    def log_results(self, summary: Mapping[str, Any]) -> None:
        """Log the run's single numbers, at the end of its clock."""
        elapsed_s = summary["elapsed_s"] or 0.0
        delays = {f"delay_{key}": value for key, value in summary["delay"].items()}
        rate = summary["updates_applied"] / elapsed_s if elapsed_s else None
        apart = {
            f"divergence_{key}": value for key, value in (summary.get("divergence") or {}).items()
        }
        told = {**dict.fromkeys(HEADLINE), **summary, **delays, **apart, "updates_per_s": rate}
        self._log_metrics(
            self._metric(key, value, elapsed_s, 0)
            for key, value in told.items()
            if _is_result(key, value)
        )

    def finish(self, status: str, tags: Mapping[str, str], run_dir: Path) -> None:
        """Store the artifacts that exist in run_dir and end the run: FINISHED, FAILED or KILLED."""
        with _failing_as_run(self._uri):
            read = sorted((run_dir / FOLDER).glob("*"))
            for path in (*(run_dir / name for name in ARTIFACTS), *read):
                if path.exists():
                    patiently(partial(self._client.log_artifact, self.run_id, str(path)))
            self._log_batch(tags=[RunTag(key, value) for key, value in tags.items()])
            patiently(partial(self._client.set_terminated, self.run_id, status))

    def _metric(self, key: str, value: float, elapsed_s: float, step: int) -> Metric:
        return Metric(key, float(value), self._start_ms + round(1000 * elapsed_s), int(step))

    def _log_metrics(self, metrics: Iterable[Metric]) -> None:
        with _failing_as_run(self._uri):
            for batch in _batches(list(metrics), _METRICS_A_BATCH):
                self._log_batch(metrics=batch)

    def _log_batch(self, **items: Any) -> None:
        patiently(partial(self._client.log_batch, self.run_id, **items))


@dataclass(frozen=True)
class Comparison:
    """A run over others, found again by its key: metrics, files by artifact folder, runs' ids."""

    key: str
    name: str
    metrics: Mapping[str, float]
    files: Mapping[str, Sequence[Path]]
    runs: Sequence[str]


def record_comparison(tracking: TrackingConfig, made: Comparison) -> str:
    """Create the comparison's run, or write it anew; returns its id. Raises RunFailed.

    Its runs are marked by a tag, not nested in it: MLflow's run table hides nested runs. Only
    finite metrics can be told.
    """
    with _failing_as_run(tracking.store):
        client = MlflowClient(tracking.store)
        run_id = _parent(client, tracking, made)
        now_ms = time.time_ns() // 1_000_000
        finite = {key: value for key, value in made.metrics.items() if math.isfinite(value)}
        metrics = [Metric(key, value, now_ms, 0) for key, value in finite.items()]
        for batch in _batches(metrics, _METRICS_A_BATCH):
            patiently(partial(client.log_batch, run_id, metrics=batch))
        for place, paths in made.files.items():
            for path in paths:
                patiently(partial(client.log_artifact, run_id, str(path), place or None))
        for run in made.runs:
            patiently(partial(client.set_tag, run, COMPARED_BY, run_id))
        note = f"[Its runs]({runs_address(_experiment_id(tracking), run_id)})"
        patiently(partial(client.set_tag, run_id, "mlflow.note.content", note))
        patiently(partial(client.set_terminated, run_id))
        return run_id


def end_running(tracking: TrackingConfig, folder: Path) -> None:
    """Mark as killed the runs in this folder whose process is gone; raises RunFailed."""
    if tracking.uri is None:
        return
    with _failing_as_run(tracking.store):
        client = MlflowClient(tracking.store)
        for run in _found(client, tracking, "attributes.status = 'RUNNING'"):
            if Path(run.data.tags.get("run_dir", "")).is_relative_to(folder):
                patiently(partial(client.set_terminated, run.info.run_id, "KILLED"))


def _parent(client: MlflowClient, tracking: TrackingConfig, made: Comparison) -> str:
    key = made.key.replace("'", "")
    for run in _found(client, tracking, f"tags.comparison = '{key}'"):
        return str(run.info.run_id)
    tags = {KIND: COMPARISON, "comparison": key}
    experiment_id = _experiment_id(tracking)
    create = partial(client.create_run, experiment_id, tags=tags, run_name=made.name)
    return str(patiently(create).info.run_id)


def _found(client: MlflowClient, tracking: TrackingConfig, text: str) -> list[Run]:
    return list(patiently(lambda: client.search_runs([_experiment_id(tracking)], text)))


def patiently(call: Callable[[], T], patience_s: float = _PATIENCE_S) -> T:
    """Result of a call on the store, repeated for as long as another process has it locked."""
    deadline = time.monotonic() + patience_s
    pause_s = 0.05
    while True:
        try:
            return call()
        except MlflowException as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(pause_s)
        pause_s = min(1.0, 2 * pause_s)


def _experiment_id(tracking: TrackingConfig) -> str:
    if database := _database(tracking.store):
        _make_whole(database)
    client = MlflowClient(tracking.store)
    found = patiently(lambda: client.get_experiment_by_name(tracking.experiment))
    if found is not None:
        return str(found.experiment_id)
    location = None
    if database := _database(tracking.store):
        location = str(database.with_name("artifacts"))
    return str(patiently(lambda: client.create_experiment(tracking.experiment, location)))


def _set_views(client: MlflowClient, experiment_id: str) -> None:
    found = patiently(lambda: client.get_experiment(experiment_id)).tags
    for key, value in experiment_tags(experiment_id).items():
        if found.get(key) != value:
            patiently(partial(client.set_experiment_tag, experiment_id, key, value))


def _make_whole(database: Path) -> None:
    """Let a store that is missing appear with all its tables, whatever interrupts this."""
    if database.exists():
        return
    for left in database.parent.glob(f".{database.name}.*.partial"):
        left.unlink()
    # MLflow remembers stores by their name, so that each attempt needs its own.
    unfinished = database.with_name(f".{database.name}.{uuid.uuid4().hex[:8]}.partial")
    MlflowClient(f"{_SQLITE}{unfinished}").search_experiments()
    os.replace(unfinished, database)


def _database(uri: str) -> Path | None:
    return Path(uri.removeprefix(_SQLITE)) if uri.startswith(_SQLITE) else None


@contextmanager
def _alone(uri: str) -> Iterator[None]:
    """Keep other launches out of the store while it is created; a server does so by itself."""
    database = _database(uri)
    if database is None:
        yield
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    with database.with_name(f"{database.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_result(key: str, value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and key not in ("seed", "target", "servers") and math.isfinite(value)


def _batches(items: list[T], size: int) -> Iterator[list[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


@contextmanager
def _failing_as_run(uri: str) -> Iterator[None]:
    try:
        yield
    except (MlflowException, SQLAlchemyError, OSError) as error:
        reason = " ".join(str(error).split())[:300]
        raise RunFailed(f"tracking.uri={uri}: {reason}") from error
