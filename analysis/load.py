"""MLflow runs -> frames. The only place that reads MLflow."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when MLflow is imported
# MLflow would ask a server that is not there for four minutes; so it does for half a minute.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "4")

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run, ViewType
from mlflow.exceptions import MlflowException
from sqlalchemy.exc import SQLAlchemyError

from analysis.errors import AnalysisError
from analysis.names import replication_name
from analysis.plan import CELL
from analysis.variants import variants_of

COLUMNS = [
    *["run_id", "experiment_id", "fingerprint", "status", "started_ms", "folder"],
    *CELL,
    *["aggregation", "engine", "workers", "servers", "colocated", "replication", "fault"],
    *["metric_name", "final_metric", "elapsed_s", "target", "time_to_target_s"],
    *["updates_applied", "mean_delay", "delay_bound"],
]
_PAGE = 500
_VIEW = ViewType.ACTIVE_ONLY


@dataclass(frozen=True)
class Recorded:
    """The runs of a figure: `runs` may be drawn, `lost` are planned runs without a valid one."""

    runs: pd.DataFrame  # columns: COLUMNS, variant
    lost: (
        pd.DataFrame
    )  # columns: CELL, variant, status ("failed", "invalid", "unfinished" or "absent")


def load_runs(tracking_uri: str, experiment: str, fingerprints: Collection[str]) -> pd.DataFrame:
    """The runs of an MLflow experiment with these fingerprints, one row each, oldest first.

    Columns: COLUMNS. `status` is "finished" only for a run that ended and is valid.
    `time_to_target_s` is infinite for a run that missed its target, NaN where it had none.
    `delay_bound` is NaN where there is none. An absent store holds no runs, and a run whose files
    are damaged has failed. Raises AnalysisError where the store cannot be read.
    """
    return _load(tracking_uri, experiment, [f"tags.fingerprint = '{x}'" for x in fingerprints])


def _load(tracking_uri: str, experiment: str, filters: Iterable[str]) -> pd.DataFrame:
    try:
        found = _runs(tracking_uri, experiment, filters)
        rows = [_row(client, run) for client, run in found if "fingerprint" in run.data.tags]
    except (MlflowException, SQLAlchemyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise AnalysisError(f"{tracking_uri}: must be an MLflow store: {reason}") from error
    frame = pd.DataFrame(rows, columns=COLUMNS)
    return frame.sort_values("started_ms", kind="stable", ignore_index=True)


def load_folder(tracking_uri: str, experiment: str, folder: Path) -> pd.DataFrame:
    """As load_runs, of the runs whose folders lie in this one."""
    inside = str(folder).replace("'", "_")
    return _load(tracking_uri, experiment, [f"tags.run_dir LIKE '{inside}/%'"])


def finished_fingerprints(
    tracking_uri: str, experiment: str, fingerprints: Collection[str]
) -> set[str]:
    """Those of the fingerprints of which the store holds a finished, valid run."""
    runs = load_runs(tracking_uri, experiment, fingerprints)
    return set(runs.loc[runs["status"] == "finished", "fingerprint"])


def select_planned(runs: pd.DataFrame, cells: pd.DataFrame) -> Recorded:
    """The run of each planned cell: its first finished one, so that repeating picks no better."""
    finished = runs[runs["status"] == "finished"].drop_duplicates("fingerprint", keep="first")
    chosen = finished[finished["fingerprint"].isin(cells["fingerprint"])]
    missing = cells[~cells["fingerprint"].isin(chosen["fingerprint"])]
    latest = dict(zip(runs["fingerprint"], runs["status"], strict=True))
    lost = missing[CELL].assign(
        variant=variants_of(missing),
        status=[latest.get(x, "absent") for x in missing["fingerprint"]],
    )
    chosen = chosen.assign(variant=variants_of(chosen))
    return Recorded(chosen.reset_index(drop=True), lost.reset_index(drop=True))


def read_table(run: Any, name: str) -> pd.DataFrame:
    """A table that a run recorded (parquet or csv); raises AnalysisError when it is not there.

    `run` is a row of load_runs: anything with `run_id` and `folder`.
    """
    path = Path(run.folder) / name
    if not path.exists():
        raise AnalysisError(f"run {run.run_id} recorded no {name} (in {run.folder})")
    return pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)


def read_config(run: Any) -> dict[str, Any]:
    """The resolved configuration of a run."""
    return _read_json(Path(run.folder) / "config.json")


def metric_curves(runs: pd.DataFrame) -> pd.DataFrame:
    """Metric of every snapshot: columns run_id, elapsed_s, value."""
    parts = []
    for run in runs.itertuples():
        metrics = read_table(run, "metrics.parquet")
        curve = metrics[["elapsed_s"]].assign(value=metrics[run.metric_name], run_id=run.run_id)
        parts.append(curve.sort_values("elapsed_s"))
    columns = ["run_id", "elapsed_s", "value"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _runs(
    tracking_uri: str, experiment: str, filters: Iterable[str]
) -> Iterable[tuple[MlflowClient, Run]]:
    """One small question for each filter: reading everything takes seconds for thousands of runs,
    and no filter of MLflow's names several values of a tag."""
    if _absent_store(tracking_uri):
        return
    client = MlflowClient(tracking_uri)
    found = client.get_experiment_by_name(experiment)
    if found is None:
        return
    for text in filters:
        token = None
        while token != "":
            page = client.search_runs([found.experiment_id], text, _VIEW, _PAGE, None, token)
            yield from ((client, run) for run in page)
            token = page.token or ""


def _absent_store(tracking_uri: str) -> bool:
    """Whether a SQLite store has no file yet; asking MLflow would create one."""
    prefix = "sqlite:///"
    return tracking_uri.startswith(prefix) and not Path(tracking_uri[len(prefix) :]).exists()


def _row(client: MlflowClient, run: Run) -> dict[str, Any]:
    running = run.info.status in ("RUNNING", "SCHEDULED")
    row: dict[str, Any] = {
        "run_id": run.info.run_id,
        "experiment_id": run.info.experiment_id,
        "fingerprint": run.data.tags["fingerprint"],
        "status": "unfinished" if running else "failed",
        "started_ms": run.info.start_time,
    }
    folder = None if running else _folder(client, run)
    if folder is None or not (folder / "run.json").exists():
        return row
    try:
        outcome = _outcome(run, _read_json(folder / "run.json"))
        return row | {"folder": str(folder)} | outcome | _settings(folder)
    except (OSError, ValueError, KeyError):  # damaged: to be run again
        return row


def _folder(client: MlflowClient, run: Run) -> Path | None:
    """A folder with the run's artifacts: the store's own where it is on this machine."""
    place = urlparse(run.info.artifact_uri)
    if place.scheme in ("", "file"):
        return Path(unquote(place.path))
    if not client.list_artifacts(run.info.run_id):
        return None
    return Path(client.download_artifacts(run.info.run_id, ""))


def _outcome(run: Run, summary: dict[str, Any]) -> dict[str, Any]:
    """What run.json says; a run that MLflow does not hold for finished is never a finished one."""
    status = summary["status"]
    if run.info.status != "FINISHED" and status == "finished":
        status = "failed"
    copied = ["metric_name", "engine", *CELL]
    numbers = ["final_metric", "elapsed_s", "target", "updates_applied"]
    return {
        "status": status,
        "time_to_target_s": _time_to_target(summary["target"], summary["time_to_target_s"]),
        **{key: summary[key] for key in copied},
        **{key: _number(summary[key]) for key in numbers},
        "mean_delay": _number(summary["delay"]["mean"]),
        "delay_bound": _number(summary["delay"]["bound"]),
    }


def _settings(folder: Path) -> dict[str, Any]:
    """What only the resolved configuration says; a run that failed early may have none."""
    path = folder / "config.json"
    if not path.exists():
        return {}
    config = _read_json(path)
    return {
        "aggregation": config["policy"].get("aggregation"),
        "workers": config["cluster"]["workers"],
        "servers": config["cluster"].get("servers"),
        "colocated": config["cluster"].get("colocated"),
        "replication": replication_name(config["replication"]),
        "fault": config["fault"]["name"],
    }


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _time_to_target(target: float | None, seconds: float | None) -> float:
    if target is None:
        return math.nan
    if seconds is None or math.isnan(seconds):
        return math.inf
    return seconds


def _read_json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content
