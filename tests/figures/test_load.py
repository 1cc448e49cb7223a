"""Reading runs back from a real MLflow store."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pandas as pd
import pytest

from analysis.errors import AnalysisError
from analysis.load import (
    finished_fingerprints,
    load_runs,
    metric_curves,
    read_table,
    select_planned,
)
from analysis.plan import CELL, PLANNED, read_plan
from tests.figures.made_up import MadeUpRun, Store


def loaded(store: Store, *runs: MadeUpRun) -> pd.DataFrame:
    return load_runs(store.uri, "mlfabric", {run.fingerprint for run in runs})


def cells(*runs: MadeUpRun) -> pd.DataFrame:
    return pd.DataFrame([run.planned for run in runs], columns=PLANNED)


def test_an_absent_store_holds_no_runs_and_stays_absent(tmp_path: Path) -> None:
    assert load_runs(f"sqlite:///{tmp_path}/none.db", "mlfabric", {"x"}).empty
    assert list(tmp_path.iterdir()) == []


def test_an_absent_experiment_holds_no_runs(store: Store) -> None:
    assert load_runs(store.uri, "another", {"x"}).empty


def test_a_run_comes_back_as_it_was_recorded(store: Store) -> None:
    run = MadeUpRun(policy="async_ps", seed=3)
    run_id = store.record(run)
    row = loaded(store, run).iloc[0]
    summary = run.summary()
    assert row["run_id"] == run_id
    assert row["status"] == "finished"
    assert row[CELL].to_dict() == {key: summary[key] for key in CELL}
    for key in ("time_to_target_s", "final_metric", "elapsed_s", "target"):
        assert row[key] == pytest.approx(summary[key])
    assert (row["mean_delay"], row["delay_bound"], row["updates_applied"]) == (3.5, 14, 120)
    assert (row["engine"], row["workers"], row["aggregation"]) == ("mpi", 8, None)


@pytest.mark.parametrize("name", ["run.json", "config.json"])
@pytest.mark.parametrize("content", ["", "{}", '{"status": "fin'])
def test_a_run_with_a_damaged_file_is_to_be_run_again(
    store: Store, name: str, content: str
) -> None:
    run = MadeUpRun(policy="async_ps", seed=3)
    store.record(run)
    row = loaded(store, run).iloc[0]
    (Path(row["folder"]) / name).write_text(content)
    assert list(loaded(store, run)["status"]) == ["failed"]
    assert finished_fingerprints(store.uri, "mlfabric", {run.fingerprint}) == set()


@pytest.mark.parametrize("content", [b"no store at all", b"SQLite format 3\0"])
def test_what_is_no_store_is_told_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mlflow.db"
    path.write_bytes(content)
    with pytest.raises(AnalysisError, match=r"mlflow\.db: must be an MLflow store") as refused:
        load_runs(f"sqlite:///{path}", "mlfabric", {"x"})
    assert "\n" not in str(refused.value)


def test_only_the_fingerprints_asked_for_are_read(store: Store) -> None:
    wanted, other = MadeUpRun(seed=0), MadeUpRun(seed=1)
    store.record(wanted)
    store.record(other)
    assert set(loaded(store, wanted)["seed"]) == {0}


@pytest.mark.parametrize(
    ("status", "mlflow_status", "expected"),
    [
        ("finished", "FINISHED", "finished"),
        ("invalid", "FAILED", "invalid"),
        ("invalid", "FINISHED", "invalid"),
        ("failed", "FAILED", "failed"),
        ("finished", "FAILED", "failed"),
        ("finished", "KILLED", "failed"),
        ("finished", "RUNNING", "unfinished"),
    ],
)
def test_only_an_ended_valid_run_is_finished(
    store: Store, status: str, mlflow_status: str, expected: str
) -> None:
    run = MadeUpRun(status=status, mlflow_status=mlflow_status)
    store.record(run)
    assert list(loaded(store, run)["status"]) == [expected]
    finished = finished_fingerprints(store.uri, "mlfabric", {run.fingerprint})
    assert finished == ({run.fingerprint} if expected == "finished" else set())


def test_a_missed_target_is_infinite_and_no_target_is_nan(store: Store) -> None:
    missed, without = MadeUpRun(seed=0, misses=True), MadeUpRun(seed=1, target=None)
    store.record(missed)
    store.record(without)
    times = loaded(store, missed, without).set_index("seed")["time_to_target_s"]
    assert times[0] == math.inf
    assert math.isnan(times[1])


def test_the_first_valid_run_of_a_cell_is_chosen(store: Store) -> None:
    run = MadeUpRun()
    store.record(MadeUpRun(status="invalid", mlflow_status="FAILED"))
    first = store.record(run)
    store.record(run)
    recorded = select_planned(loaded(store, run), cells(run))
    assert list(recorded.runs["run_id"]) == [first]
    assert recorded.lost.empty


def test_planned_runs_without_a_valid_one_are_reported(store: Store) -> None:
    good, invalid, absent = (MadeUpRun(seed=seed) for seed in range(3))
    store.record(good)
    store.record(MadeUpRun(seed=1, status="invalid", mlflow_status="FAILED"))
    recorded = select_planned(loaded(store, good, invalid, absent), cells(good, invalid, absent))
    assert list(recorded.runs["seed"]) == [0]
    assert recorded.lost[["seed", "status"]].to_numpy().tolist() == [[1, "invalid"], [2, "absent"]]


def test_the_variant_is_what_the_run_was_configured_for(store: Store) -> None:
    """Of a lost run, what the plan says."""
    runs = [MadeUpRun(seed=seed, aggregation="pipelined") for seed in range(2)]
    runs += [MadeUpRun(aggregation="paper"), MadeUpRun(policy="async_ps")]
    for run in runs[1:]:
        store.record(run)
    recorded = select_planned(loaded(store, *runs), cells(*runs))
    assert list(recorded.runs["variant"]) == ["mlfabric_a pipelined", "mlfabric_a", "async_ps"]
    assert list(recorded.lost["variant"]) == ["mlfabric_a pipelined"]


def test_a_plan_without_details_is_read(store: Store, tmp_path: Path) -> None:
    """As it was written before runs had variants."""
    run = MadeUpRun()
    path = store.plan(tmp_path / "plan.json", [run], ("fig7",))
    content = json.loads(path.read_text())
    content["figures"]["fig7"] = [{"fingerprint": run.fingerprint, **run.cell}]
    path.write_text(json.dumps(content))
    recorded = select_planned(loaded(store, run), read_plan(path).cells("fig7"))
    assert list(recorded.lost["variant"]) == ["mlfabric_a"]


def test_a_run_that_died_without_records_is_failed(store: Store) -> None:
    run = MadeUpRun()
    store.record_empty(run)
    recorded = select_planned(loaded(store, run), cells(run))
    assert recorded.runs.empty
    assert list(recorded.lost["status"]) == ["failed"]


def test_curves_hold_every_snapshot(store: Store) -> None:
    run = MadeUpRun(workload="plda_sotu", target=-8.0)
    store.record(run)
    curve = metric_curves(loaded(store, run))
    assert list(curve["elapsed_s"]) == list(run.metrics()["elapsed_s"])
    assert list(curve["value"]) == pytest.approx(list(run.metrics()["heldout_loglik"]))


def test_a_missing_table_is_named(store: Store) -> None:
    run = MadeUpRun()
    run_id = store.record(run)
    row = next(loaded(store, run).itertuples())
    with pytest.raises(AnalysisError, match=rf"{run_id} recorded no updates.parquet"):
        read_table(row, "updates.parquet")


def test_a_plan_comes_back_and_names_what_it_lacks(store: Store, tmp_path: Path) -> None:
    run = MadeUpRun()
    plan = read_plan(store.plan(tmp_path / "plan.json", [run], ("fig7",)))
    assert plan.tracking_uri == store.uri
    assert plan.cells("fig7").to_dict("records") == [run.planned]
    with pytest.raises(AnalysisError, match=r"'fig8' is not in the plan.*planned: fig7"):
        plan.cells("fig8")


def test_an_absent_plan_says_what_writes_it(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match=r"no plan at .*make reproduce-figures"):
        read_plan(tmp_path / "plan.json")


def test_run_json_may_hold_nulls(store: Store) -> None:
    """A run whose last value was not finite records null."""
    run = MadeUpRun(final_is_finite=False)
    store.record(run)
    assert math.isnan(loaded(store, run)["final_metric"].iloc[0])
