"""All-reduce on twelve shaped hosts, beside its peers; results/bench/allreduce.json.

Contenders: `mlfabric_allreduce` and `ring_allreduce` of this library, MPI_Allreduce of Open MPI and
of MPICH, torch.distributed's gloo. Each runs alone on a cluster of its own, every case in the same
way: operations back to back, of which the first ones, in which links are learned, are not counted.
An operation lasts from the end of the one before on the last host to its own end on the last host.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.allreduce_cases import CASES, HOSTS, RATE, Case
from experiments.bench.report import claim, report
from experiments.mpi_library import library
from experiments.mpiexec import run_in_bubble

OURS = "mlfabric_allreduce"
CONTENDERS: dict[str, str] = {
    OURS: "openmpi",
    "ring_allreduce": "openmpi",
    "MPI_Allreduce (Open MPI)": "openmpi",
    "MPI_Allreduce (MPICH)": "mpich",
    "gloo": "openmpi",
}
"""Each with the MPI that starts it."""

EVEN_TOLERANCE = 1.10
LEVEL = 0.99
"""On equal links: no slower than the best, but for what two runs of one contender differ by."""

SLOW_TOLERANCE = 1.3
SLOW_LEAD = 1.4


def main() -> int:
    """Measure, write, print; exit status 1 where a claim does not hold."""
    return report("allreduce", compare(CASES, tuple(CONTENDERS)))


def compare(cases: Sequence[Case], contenders: Sequence[str]) -> dict[str, Any]:
    """Seconds of all operations of the contenders, ours among them, and what they claim."""
    measured = [
        {"case": case.name, **_measure(case, contender)}
        for case in cases
        for contender in contenders
    ]
    peers = [contender for contender in contenders if contender != OURS]
    return {
        "cases": [
            {**dataclasses.asdict(case), "bounds_s": {n: case.bound_s(n) for n in case.sizes}}
            for case in cases
        ],
        "measured": measured,
        "claims": [one for case in cases for one in _claims(case, measured, peers)],
    }


def _measure(case: Case, contender: str) -> dict[str, Any]:
    mpi = library(CONTENDERS[contender])
    with tempfile.TemporaryDirectory() as folder:
        program = ["-m", "experiments.bench.allreduce_rank", folder, contender, case.name]
        rates = {host: RATE * case.factors.get(host, 1.0) for host in HOSTS}
        run_in_bubble(Path(folder), rates, case.rate_events(), mpi, program)
        ranks = [json.loads((Path(folder) / f"{host}.json").read_text()) for host in HOSTS]
    print(f"allreduce: {case.name}, {contender}: done", flush=True)
    return {"contender": contender, "sizes": [_summed_up(ranks, size) for size in case.sizes]}


def _summed_up(ranks: Sequence[Mapping[str, Any]], size: int) -> dict[str, Any]:
    ends = np.array([rank[str(size)]["ends_s"] for rank in ranks]).max(axis=0)
    seconds = np.diff(ends)
    moved = 2 * (len(HOSTS) - 1) * size * len(seconds)
    cpu_s = sum(rank[str(size)]["cpu_s"] for rank in ranks)
    return {
        "bytes": size,
        "seconds": [round(value, 4) for value in seconds.tolist()],
        "median_s": statistics.median(seconds.tolist()),
        "p95_s": float(np.percentile(seconds, 95)),
        "cpu_s_per_gb": cpu_s / moved * 1e9,
    }


def _claims(
    case: Case, measured: Sequence[Mapping[str, Any]], peers: Sequence[str]
) -> list[dict[str, Any]]:
    found = {
        (one["contender"], size["bytes"]): size
        for one in measured
        if one["case"] == case.name
        for size in one["sizes"]
    }
    return [one for size in case.sizes for one in _claims_of(case, size, found, peers)]


def _claims_of(
    case: Case,
    size: int,
    found: Mapping[tuple[str, int], Mapping[str, Any]],
    peers: Sequence[str],
) -> list[dict[str, Any]]:
    what, ours = f"{case.name}, {size / 1e6:g} MB", found[OURS, size]
    best = min(peers, key=lambda peer: found[peer, size]["median_s"])
    lead = found[best, size]["median_s"] / ours["median_s"]
    if case.changing:
        tail = min(found[peer, size]["p95_s"] for peer in peers) / ours["p95_s"]
        return [
            claim(f"{what}: best other median ({best}) over ours", lead, "above 1", lead > 1),
            claim(f"{what}: best other 95th percentile over ours", tail, "above 1", tail > 1),
        ]
    bound = ours["median_s"] / case.bound_s(size)
    least, most = (SLOW_LEAD, SLOW_TOLERANCE) if case.factors else (LEVEL, EVEN_TOLERANCE)
    return [
        claim(f"{what}: ours over the links' bound", bound, f"at most {most}", bound <= most),
        claim(f"{what}: best other ({best}) over ours", lead, f"at least {least}", lead >= least),
    ]
