"""ResNet-50 on a machine with GPUs: `python3 -m experiments.gpus`, about nine minutes.

Sixteen workers share the GPUs, each on an emulated host with a link of 1 Gbit/s; four policies
under no stragglers and under NS1 x CS2; beside them an all-reduce of the same bytes by NCCL,
unshaped.
Needs PyTorch with CUDA, mpi4py and an MPI on PATH. `--packages FOLDER` installs the wheels in it
beside the results first, for a machine that reaches no registry (make gpu-wheels collects them).
Writes summary.json and each run's run.json into results/gpus, or what `--results` names.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.environment import git_state
from experiments.paths import ROOT

RESULTS = ROOT / "results" / "gpus"
POLICIES = {
    "ring_allreduce": ["policy=ring_allreduce"],
    "async_ps": ["policy=async_ps"],
    "mlfabric_a": ["policy=mlfabric_a", "policy.aggregation=pipelined"],
    "mlfabric_s": ["policy=mlfabric_s", "policy.aggregation=pipelined"],
}
SETTINGS = {"none": ["network=none", "compute=none"], "NS1xCS2": ["network=ns1", "compute=cs2"]}
WORKLOAD = ["workload=resnet_synthetic", "workload.batch_size=32", "workload.device=cuda"]


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; exit status 1 where a run is not valid."""
    asked = _parser().parse_args(arguments)
    if asked.packages is not None:
        return _again_with(Path(asked.packages), asked.results, arguments)
    machine = _machine()
    if not machine["gpus"]:
        print("experiments.gpus: PyTorch sees no GPU here", file=sys.stderr)
        return 2
    asked.results.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {
        "command": ["python3", "-m", "experiments.gpus", *arguments],
        "git": git_state(),
        "machine": machine,
        "nccl_allreduce_s": nccl_seconds(),
        "runs": [],
    }
    for setting in asked.settings:
        for policy in asked.policies:
            report["runs"].append(_run(policy, setting, asked))
            text = json.dumps(report, indent=2) + "\n"
            (asked.results / "summary.json").write_text(text, encoding="utf-8")
    print(asked.results / "summary.json")
    return 0 if all(row["status"] == "finished" for row in report["runs"]) else 1


def _again_with(packages: Path, results: Path, arguments: Sequence[str]) -> int:
    """Install wheels beside the results, and start again with them."""
    place = results / "packages"
    wheels = sorted(map(str, packages.glob("*.whl")))
    install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--upgrade"]
    command = [sys.executable, *install, "--target", str(place), *wheels]
    if not wheels or subprocess.run(command).returncode != 0:
        print(f"--packages {packages}: must hold wheels for this Python", file=sys.stderr)
        return 2
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(place), *([inherited] if inherited else [])])
    rest = _without_packages(arguments)
    done = subprocess.run(
        [sys.executable, "-m", "experiments.gpus", *rest],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    return done.returncode


def _without_packages(arguments: Sequence[str]) -> list[str]:
    kept, skip = [], False
    for argument in arguments:
        if not skip and not argument.startswith("--packages"):
            kept.append(argument)
        skip = argument == "--packages"
    return kept


def _run(policy: str, setting: str, asked: argparse.Namespace) -> dict[str, Any]:
    """One run of its own process; what is told of it."""
    folder = asked.results / f"{policy}-{setting}"
    shutil.rmtree(folder, ignore_errors=True)
    overrides = [
        *("cluster=gpus", f"engine.mpi={asked.mpi}", "tracking=none", *WORKLOAD),
        *(*POLICIES[policy], *SETTINGS[setting], f"engine.max_seconds={asked.seconds}"),
        *("engine.snapshot_interval_s=20", "engine.watchdog_s=60"),
    ]
    command = [sys.executable, "-m", "experiments.run", *overrides, f"hydra.run.dir={folder}"]
    subprocess.run(command, cwd=ROOT, check=False)
    told = {"policy": policy, "setting": setting, "overrides": overrides}
    if not (folder / "run.json").exists():
        return {**told, "status": "failed", "reason": "the settings were refused"}
    shutil.copy(folder / "run.json", asked.results / f"run-{folder.name}.json")
    return {**told, **measured(folder)}


def measured(folder: Path) -> dict[str, Any]:
    """A run's numbers: updates/s, seconds an iteration, delays, use of the busiest link."""
    import pandas as pd

    found = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    told = {
        key: found[key] for key in ("status", "reason", "emulation", "updates_applied", "delay")
    }
    if found["updates_applied"] is None:
        return told
    computations = pd.read_parquet(folder / "computations.parquet")
    iterations = computations.groupby("worker")["started_s"].diff().dropna()
    return {
        **told,
        "updates_dropped": found["updates_dropped"],
        "elapsed_s": found["elapsed_s"],
        "updates_per_s": found["updates_applied"] / found["elapsed_s"],
        "iteration_s": quantiles(iterations.tolist()),
        "real_computation_s": quantiles(computations["real_s"].tolist()),
        "overran": found["compute_overrun_fraction"],
        "link_use": link_use(
            found["bytes_by_link"],
            config["cluster"]["bandwidth_bytes_per_s"] * found["elapsed_s"],
        ),
        "worst_link_miss": found["worst_link_miss"],
    }


def quantiles(values: Sequence[float]) -> dict[str, float] | None:
    """Median and 95th percentile; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return {
        "median": statistics.median(ordered),
        "p95": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
    }


def link_use(bytes_by_link: Mapping[str, Mapping[str, int]], carried: float) -> dict[str, float]:
    """Shares of what a link could carry: of the server's both ways, and the mean of all others."""
    others = [
        way for host, ways in bytes_by_link.items() if host != "server" for way in ways.values()
    ]
    server = bytes_by_link.get("server", {"ingress": 0, "egress": 0})
    return {
        "server_ingress": server["ingress"] / carried,
        "server_egress": server["egress"] / carried,
        "mean_of_others": statistics.mean(others) / carried if others else 0.0,
    }


def nccl_seconds() -> dict[str, Any]:
    """Seconds of NCCL's all-reduce of a dense update over this machine's GPUs."""
    import torch

    gpus = torch.cuda.device_count()
    if gpus < 2:
        return {"gpus": gpus, "median": None, "why": "an all-reduce needs two GPUs"}
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={gpus}"]
    command = [sys.executable, *launcher, "-m", "experiments.gpus_nccl"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {"gpus": gpus, "median": None, "why": done.stderr.strip().splitlines()[-1:]}
    return {"gpus": gpus, **json.loads(done.stdout.splitlines()[-1])}


def _machine() -> dict[str, Any]:
    import torch

    return {
        "gpus": [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())],
        "cores": len(os.sched_getaffinity(0)),
        "torch": torch.__version__,
    }


def _some_of(known: Mapping[str, Any]) -> Callable[[str], list[str]]:
    """What splits an argument into names that are known."""

    def names(text: str) -> list[str]:
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name}: must be one of {', '.join(known)}")
        return text.split(",")

    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m experiments.gpus", allow_abbrev=False)
    parser.add_argument("--packages", help="a folder of wheels to install first")
    parser.add_argument("--seconds", type=float, default=40.0, help="of training, each run")
    parser.add_argument("--mpi", default="system", help="engine.mpi (default: %(default)s)")
    for option, known in (("--policies", POLICIES), ("--settings", SETTINGS)):
        parser.add_argument(
            option, type=_some_of(known), default=",".join(known), help="default: %(default)s"
        )
    parser.add_argument(
        "--results",
        type=ROOT.joinpath,
        default=RESULTS,
        help="folder to write, from the project's root on",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
