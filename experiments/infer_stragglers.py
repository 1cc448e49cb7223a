"""Search for the paper's straggler settings: `python -m experiments.infer_stragglers`.

The paper names NS1 to NS3 and CS1 to CS3 and tells speedups, not parameters. Round values are
tried: for every pair of a network and a compute setting, how much sooner `mlfabric_a` in paper mode
has applied the updates that it needs to the target than `ring_allreduce` has the ones that it needs
(timing only). The six settings are then chosen together so that five cells of the paper's table,
row CS1 and column NS2, come out closest; the other four are never looked at. Every tried point
goes to results/stragglers.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import Any, NamedTuple

from experiments.execute_virtual import time_only
from experiments.files import write_json
from experiments.overrides import validate
from experiments.paths import RESULTS
from experiments.schema import RunConfig
from experiments.sections import VirtualEngineConfig

FITTED = {
    ("cs1", "ns1"): 1.74,
    ("cs1", "ns2"): 1.23,
    ("cs1", "ns3"): 1.42,
    ("cs2", "ns2"): 2.00,
    ("cs3", "ns2"): 1.33,
}
"""Speedups in the paper's table [paper]; its other four cells are held out."""

PROBABILITIES = (0.02, 0.05, 0.1, 0.2)
FACTORS = (0.025, 0.05, 0.1, 0.25, 0.5)
MAX_FACTORS = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
SEEDS = (200, 201, 202)
TIME_LIMIT_S = 600.0
PROCESSES = 2
TOLD_EVERY = 200
KEPT = 20
"""How many of the best combinations are told."""


class Network(NamedTuple):
    """Each period each link keeps `factor` of its rate with `probability`."""

    probability: float
    factor: float


class Compute(NamedTuple):
    """With `probability` an iteration takes U[1, max_factor] times as long."""

    probability: float
    max_factor: float


NETWORKS = tuple(itertools.starmap(Network, itertools.product(PROBABILITIES, FACTORS)))
COMPUTES = tuple(itertools.starmap(Compute, itertools.product(PROBABILITIES, MAX_FACTORS)))
Ratios = Mapping[tuple[Compute, Network], float]


def main(arguments: Sequence[str]) -> int:
    """Try every pair, choose, print and write."""
    parser = argparse.ArgumentParser(prog="python -m experiments.infer_stragglers")
    parser.add_argument("--ring-updates", type=int, required=True, help="to the target, in a sum")
    parser.add_argument("--mlfabric-updates", type=int, required=True, help="to the target")
    chosen = parser.parse_args(arguments)
    needed = {"ring_allreduce": chosen.ring_updates, "mlfabric_a": chosen.mlfabric_updates}
    ratios = _try_all(needed)
    best = best_combinations(ratios)
    points = [
        {"compute": list(compute), "network": list(network), "ratio": ratio}
        for (compute, network), ratio in ratios.items()
    ]
    report = {"updates": needed, "seeds": SEEDS, "points": points, "best": best[:KEPT]}
    write_json(report, RESULTS / "stragglers.json")
    print(json.dumps(best[:5], indent=1))
    return 0


def best_combinations(ratios: Ratios) -> list[dict[str, Any]]:
    """Six settings and their objective, the sum of squared log errors of the five cells; by that.

    Given CS1 and NS2, each other setting appears in one cell, so its best value does not depend on
    the others'. No setting is used twice.
    """
    found = []
    for cs1, ns2 in itertools.product(COMPUTES, NETWORKS):
        error = _error(ratios[cs1, ns2], ("cs1", "ns2"))
        ns1 = _closest(ratios, [(cs1, n) for n in NETWORKS if n != ns2], ("cs1", "ns1"))
        ns3 = _closest(
            ratios, [(cs1, n) for n in NETWORKS if n not in (ns2, ns1[1])], ("cs1", "ns3")
        )
        cs2 = _closest(ratios, [(c, ns2) for c in COMPUTES if c != cs1], ("cs2", "ns2"))
        cs3 = _closest(
            ratios, [(c, ns2) for c in COMPUTES if c not in (cs1, cs2[0])], ("cs3", "ns2")
        )
        pairs = {
            ("cs1", "ns1"): ns1,
            ("cs1", "ns2"): (cs1, ns2),
            ("cs1", "ns3"): ns3,
            ("cs2", "ns2"): cs2,
            ("cs3", "ns2"): cs3,
        }
        error = sum(_error(ratios[pair], cell) for cell, pair in pairs.items())
        found.append(
            {
                "objective": error,
                "ns1": ns1[1]._asdict(),
                "ns2": ns2._asdict(),
                "ns3": ns3[1]._asdict(),
                "cs1": cs1._asdict(),
                "cs2": cs2[0]._asdict(),
                "cs3": cs3[0]._asdict(),
                "ratios": {"/".join(cell).upper(): ratios[pair] for cell, pair in pairs.items()},
            }
        )
    return sorted(found, key=lambda one: one["objective"])


def _closest(
    ratios: Ratios, pairs: Sequence[tuple[Compute, Network]], cell: tuple[str, str]
) -> tuple[Compute, Network]:
    return min(pairs, key=lambda pair: _error(ratios[pair], cell))


def _error(ratio: float, cell: tuple[str, str]) -> float:
    return math.log(ratio / FITTED[cell]) ** 2


def _try_all(needed: Mapping[str, int]) -> dict[tuple[Compute, Network], float]:
    jobs = [
        (policy, updates, compute, network, seed)
        for compute in COMPUTES
        for network in NETWORKS
        for seed in SEEDS
        for policy, updates in needed.items()
    ]
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        times = {}
        for job, seconds in zip(jobs, pool.map(_seconds, jobs, chunksize=8), strict=True):
            times[job] = seconds
            if len(times) % TOLD_EVERY == 0:
                print(f"{len(times)} of {len(jobs)} runs", flush=True)
    return {
        (compute, network): statistics.median(
            times["ring_allreduce", needed["ring_allreduce"], compute, network, seed]
            / times["mlfabric_a", needed["mlfabric_a"], compute, network, seed]
            for seed in SEEDS
        )
        for compute in COMPUTES
        for network in NETWORKS
    }


def _seconds(job: tuple[str, int, Compute, Network, int]) -> float:
    """Virtual seconds until a policy has applied so many updates."""
    policy, updates, compute, network, seed = job
    config = _composed(policy)
    assert isinstance(config.engine, VirtualEngineConfig)
    config = dataclasses.replace(
        config,
        seed=seed,
        network=dataclasses.replace(config.network, **network._asdict()),
        compute=dataclasses.replace(config.compute, **compute._asdict()),
        engine=dataclasses.replace(config.engine, max_updates=updates),
    )
    return float(time_only(config)[-1]["elapsed_s"])


@cache
def _composed(policy: str) -> RunConfig:
    overrides = ["engine=virtual", "cluster=paper", "workload=resnet_digits"]
    timing = ["workload.timing_only=true", f"engine.max_seconds={TIME_LIMIT_S}"]
    (config,) = validate([*overrides, *timing, f"policy={policy}"], multirun=False)
    return config


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
