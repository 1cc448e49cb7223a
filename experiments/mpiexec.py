"""Command lines that start ranks, on their own or inside an emulated cluster."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.mpi_library import Emulation, MpiLibrary
from experiments.paths import ROOT
from mlfabric.emulation.availability import unavailable
from mlfabric.emulation.spec import RateEvent
from mlfabric.errors import EmulationUnavailable

EMULATION_VARIABLE = "MLFABRIC_EMULATION"
_LIBRARIES = ("OMP", "MKL", "OPENBLAS", "NUMBA", "NUMEXPR")
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in _LIBRARIES}


def environment(emulation: Emulation, mpi: MpiLibrary) -> dict[str, str]:
    """What every rank finds in its environment: one thread for each library, and where it lives."""
    own = {EMULATION_VARIABLE: emulation, "PYTHONUNBUFFERED": "1"}
    return {**ONE_THREAD, **own, **mpi.environment(emulation)}


def mpi_command(
    ranks: int,
    emulation: Emulation,
    program: Sequence[str],
    mpi: MpiLibrary,
    hostfile: str | None = None,
    *,
    tolerant: bool = False,
) -> list[str]:
    """Start `ranks` of a Python program; with `tolerant`, others go on when one dies."""
    exported = environment(emulation, mpi)  # does not reach other hosts by itself
    command = mpi.command(ranks, emulation, hostfile, exported, tolerant=tolerant)
    return [*command, sys.executable, *program]


def require_emulation() -> None:
    """Raises EmulationUnavailable with one line where this machine allows no emulated cluster."""
    reason = unavailable()
    if reason is not None:
        way_out = "engine.emulation=none runs on unshaped links"
        raise EmulationUnavailable(f"no emulated cluster here: {reason}; {way_out}")


def bubble_command(
    run_dir: Path,
    bandwidths: Mapping[str, float],
    congestion_control: str,
    events: Sequence[RateEvent],
    command: Sequence[str],
    mpi: MpiLibrary,
) -> list[str]:
    """Run `command` in an emulated cluster of hosts with these bytes/s.

    Writes the cluster's description into `run_dir`; raises EmulationUnavailable with one line.
    """
    require_emulation()
    spec = {
        "hosts": [{"name": n, "bandwidth_bytes_per_s": b} for n, b in bandwidths.items()],
        "congestion_control": congestion_control,
        "rate_events": [dataclasses.astuple(event) for event in events],
        "run_dir": str(run_dir),
        "command": list(command),
        "env": environment("netns", mpi),
        "cwd": str(ROOT),
        "launcher_pid": os.getpid(),
    }
    path = run_dir / "bubble.json"
    path.write_text(json.dumps(spec), encoding="utf-8")
    return [sys.executable, "-m", "mlfabric.emulation.bubble", str(path)]


def run_in_bubble(
    folder: Path,
    bandwidths: Mapping[str, float],
    events: Sequence[RateEvent],
    mpi: MpiLibrary,
    program: Sequence[str],
    *,
    tolerant: bool = False,
    timeout_s: float | None = None,
) -> None:
    """Run one rank of a program on each emulated host.

    CalledProcessError where that fails, TimeoutExpired where it does not end in time.
    """
    ranks = mpi_command(len(bandwidths), "netns", program, mpi, tolerant=tolerant)
    subprocess.run(
        bubble_command(folder, bandwidths, "cubic", events, ranks, mpi),
        check=True,
        timeout=timeout_s,
    )
