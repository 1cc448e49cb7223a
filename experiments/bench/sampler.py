"""Our Gibbs sampler beside those that people use, one thread each; results/bench/sampler.json.

`make bench ARGS=sampler`: tomotopy and lda on the State of the Union and Reuters, K = 100 and
1,000, equal priors and sweeps, each in a process of its own. Ours is a worker's whole step, in
minibatches of the usual size: the sparse change of the counts is made, too. Log-likelihoods are of
the training tokens, by the same formula from everyone's final counts.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from typing import Any

from experiments.bench.report import BenchFailed, claim, report
from experiments.mpiexec import ONE_THREAD
from experiments.paths import ROOT

SAMPLERS = ("ours", "tomotopy", "lda")
CORPORA = ("sotu", "reuters")
SWEEPS = {100: 50, 1000: 20}
ROUNDS = 3
"""The fastest two are measured so often, each time with another seed; lda, far behind, once."""

FASTER = 1.2
LEVEL = 0.01
"""Log-likelihoods that differ by less, in nats a token, are level: seeds of one sampler do."""

Row = dict[str, Any]


def main() -> int:
    """Measure, write, print; exit status 1 where a claim does not hold."""
    rows: list[Row] = []
    claims = []
    for corpus in CORPORA:
        for topics, sweeps in SWEEPS.items():
            found = {name: _measured(name, corpus, topics, sweeps) for name in SAMPLERS}
            rows += found.values()
            for row in found.values():
                print(
                    f"{row['sampler']} · {corpus} · K = {topics}: {row['tokens_per_s'] / 1e6:.2f} M"
                    f" tokens/s, {row['loglik_per_token']:.4f} nats a token,"
                    f" {row['memory_bytes'] / 1e6:.0f} MB",
                    flush=True,
                )
            claims += _claims(f"{corpus}, K = {topics}", found)
    return report("sampler", {"sweeps": SWEEPS, "rows": rows, "claims": claims})


def _claims(where: str, found: dict[str, Row]) -> list[dict[str, Any]]:
    ours, peer = found["ours"], found["tomotopy"]
    speed = ours["tokens_per_s"] / peer["tokens_per_s"]
    ahead = ours["loglik_per_token"] - peer["loglik_per_token"]
    return [
        claim(f"{where}: tokens/s over tomotopy's", speed, f"at least {FASTER}", speed >= FASTER),
        claim(
            f"{where}: log-likelihood a token less tomotopy's",
            ahead,
            f"at least -{LEVEL}",
            ahead >= -LEVEL,
        ),
    ]


def _measured(sampler: str, corpus: str, topics: int, sweeps: int) -> Row:
    rounds = 1 if sampler == "lda" else ROUNDS
    found = [_once(sampler, corpus, topics, sweeps, seed) for seed in range(rounds)]
    median = {key: statistics.median(row[key] for row in found) for key in found[0]}
    logliks = [row["loglik_per_token"] for row in found]
    what = {"sampler": sampler, "corpus": corpus, "topics": topics, "rounds": rounds}
    return {**what, **median, "logliks": logliks}


def _once(sampler: str, corpus: str, *numbers: int) -> Row:
    command = ["-m", "experiments.bench.sampler_child", sampler, corpus, *map(str, numbers)]
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise BenchFailed(f"sampler {sampler} on {corpus}: {last}")
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row
