"""Runs that a study compares: carried out once, and kept by the fingerprint of what shapes them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.errors import RunFailed
from experiments.files import alone
from experiments.fingerprint import fingerprint
from experiments.overrides import validate
from experiments.pool import Ended, Pool
from experiments.run import main as run
from experiments.schema import to_plain


@dataclass(frozen=True)
class Result:
    """A finished run: its run.json, and its scored snapshots (version, elapsed_s, metrics)."""

    summary: Mapping[str, Any]
    metrics: pd.DataFrame

    @property
    def curve(self) -> pd.Series:
        """The workload's metric by seconds of the run's clock."""
        return self.metrics.set_index("elapsed_s")[self.summary["metric_name"]]

    @property
    def last(self) -> float:
        """The workload's metric in the last snapshot."""
        return float(self.curve.iloc[-1])


def carried_out(jobs: Mapping[str, Sequence[str]], folder: Path) -> dict[str, Result]:
    """The results of runs on the virtual clock, by job: overrides of `experiments.run`.

    A run of the same settings and code that is in `folder` already is not repeated. Raises
    RunFailed for the first that does not finish.
    """
    with _turn(folder):
        places = _places(jobs, folder)
        lines = _missing(jobs, places)
        with Pool() as pool:
            for place, ended in enumerate(pool.carry_out(lines.items()), start=1):
                _tell(ended, place, len(lines))
        return {job: _read(place) for job, place in places.items()}


def carried_out_alone(jobs: Mapping[str, Sequence[str]], folder: Path) -> dict[str, Result]:
    """`carried_out` for runs that need the machine to themselves: those of real ranks."""
    with _turn(folder):
        places = _places(jobs, folder)
        for job, line in _missing(jobs, places).items():
            if status := run(line):
                raise RunFailed(f"{job}: ended with status {status}")
        return {job: _read(place) for job, place in places.items()}


def _turn(folder: Path) -> AbstractContextManager[None]:
    return alone(folder / "study.lock", f"waiting for another study in {folder} to end")


def _places(jobs: Mapping[str, Sequence[str]], folder: Path) -> dict[str, Path]:
    return {job: folder / _name(overrides) for job, overrides in jobs.items()}


def _missing(jobs: Mapping[str, Sequence[str]], places: Mapping[str, Path]) -> dict[str, list[str]]:
    """Command lines of the jobs that have not been finished; what is left of those goes."""
    found = {job: _line(jobs[job], at) for job, at in places.items() if not _finished(at)}
    for place in (places[job] for job in found):
        if place.exists():
            shutil.rmtree(place)
    if found:
        print(f"{len(found)} of {len(jobs)} runs to do", flush=True)
    return found


def _tell(ended: Ended[str], place: int, of: int) -> None:
    said = ended.said.strip().splitlines()
    print(f"[{place}/{of}] {ended.job}: {said[-1] if said else ''}", flush=True)
    if ended.status != 0:
        raise RunFailed(f"{ended.job}: ended with status {ended.status}\n{ended.said}")


def _line(overrides: Sequence[str], place: Path) -> list[str]:
    return [
        *overrides,
        f"hydra.run.dir={place}",
        f"tracking.uri=sqlite:///{place.parent}/mlflow.db",
    ]


def _name(overrides: Sequence[str]) -> str:
    (config,) = validate(list(overrides), multirun=False)
    return fingerprint(json.dumps(to_plain(config)))


def _finished(place: Path) -> bool:
    path = place / "run.json"
    return path.exists() and json.loads(path.read_text())["status"] == "finished"


def _read(place: Path) -> Result:
    summary = json.loads((place / "run.json").read_text())
    return Result(summary, pd.read_parquet(place / "metrics.parquet"))
