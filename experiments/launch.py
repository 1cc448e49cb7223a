"""Starts a run's ranks, watches over them and says what went wrong with them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

from experiments.mpi_library import Emulation, library
from experiments.mpiexec import (
    bubble_command,
    environment,
    mpi_command,
    require_emulation,
)
from experiments.paths import ROOT
from experiments.plan import rate_events
from experiments.schema import RunConfig
from experiments.sections import SLURM, MpiEngineConfig
from experiments.slurm import STEPS, allocated_hosts
from mlfabric import policies
from mlfabric.emulation.availability import unavailable
from mlfabric.emulation.namespaces import die_with_parent
from mlfabric.emulation.stragglers import write_trace
from mlfabric.errors import EmulationUnavailable

KILL_S = 5.0
FULL_BYTES = 16384
"""With less than this left, ranks could not tell why they have ended."""

_SCHEDULER_LOST = "SchedulerLost: "
_KILLED = (-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGKILL, 128 + signal.SIGTERM)

_DIED = re.compile(
    r"process rank (\d+) with PID \d+ on node \S+ exited on\s+signal (\d+)"  # Open MPI
    r"|RANK (\d+) PID \d+ RUNNING AT \S+\s+=\s+KILLED BY SIGNAL: (\d+)"  # MPICH 4
)
_KILLED_PROCESS = re.compile(  # MPICH 5 does not tell the rank
    r"PID (\d+) RUNNING AT \S+\s+=\s+EXIT CODE: \d+.*?EXIT STRING: \w+ \(signal (\d+)\)", re.DOTALL
)


class Launch:
    """One cluster of ranks, from start to end."""

    def __init__(self, config: RunConfig, run_dir: Path) -> None:
        assert config.emulation is not None, "these are not ranks"
        self.emulation, self.why = _chosen(config)
        assert isinstance(config.engine, MpiEngineConfig)
        self._mpi = library(config.engine.mpi)
        self._config = config
        self._run_dir = run_dir
        self._process: subprocess.Popen[bytes] | None = None

    def check(self) -> None:
        """Raises EmulationUnavailable or SettingError where what is asked for is not to be had."""
        if self._config.cluster.name == SLURM:
            allocated_hosts()
        if self.emulation == "netns":
            require_emulation()
        if self.emulation == "userspace" and policies.place(self._config.policy.name) == "library":
            raise EmulationUnavailable(
                f"policy={self._config.policy.name} needs namespaces to shape the MPI library's"
                f" own transfers: {self.why}; engine.emulation=none runs it unshaped"
            )

    def worst_link_miss(self) -> float | None:
        """By which share the worst shaped link misses its rate; None before it was measured."""
        path = self._run_dir / "calibration.json"
        return float(json.loads(path.read_text())["worst_miss"]) if path.exists() else None

    def start(self) -> None:
        """Start everything; raises EmulationUnavailable or SettingError with one line."""
        command = self._command()
        with (self._run_dir / "console.log").open("wb") as console:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **environment(self.emulation, self._mpi), **STEPS},
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                process_group=0,
                preexec_fn=lambda: die_with_parent(signal.SIGTERM),
            )

    def poll(self) -> int | None:
        """Exit status of the whole cluster, None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def request_stop(self) -> None:
        """Let the ranks end cleanly, soon."""
        (self._run_dir / "stop").touch()

    def kill(self) -> None:
        """End every rank; nothing happens where none runs."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(KILL_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def failure(self) -> str:
        """What went wrong, in one line, then a traceback if there is one."""
        stories = sorted(self._run_dir.glob("failure-*.txt"), key=lambda p: p.stat().st_mtime_ns)
        if stories:
            story = stories[0].read_text(encoding="utf-8").strip()
            if _SCHEDULER_LOST in story:
                return f"{self._config.hosts[0]} was lost: nobody plans or keeps time"
            rank = int(stories[0].stem.split("-")[1])
            return f"{self._named(rank)} raised {story.splitlines()[-1]}\n{story}"
        console = (self._run_dir / "console.log").read_text(encoding="utf-8", errors="replace")
        killed = _KILLED_PROCESS.search(console)
        if killed is not None:
            pid, number = map(int, killed.groups())
            return f"a rank (process {pid}) was killed by {signal.Signals(number).name}"
        died = _DIED.search(console)
        if died is not None:
            rank, number = (int(found) for found in died.groups() if found is not None)
            return f"{self._named(rank)} was killed by {signal.Signals(number).name}"
        if self.poll() in _KILLED:
            return f"mpirun or the emulated cluster was killed (status {self.poll()})"
        if shutil.disk_usage(self._run_dir).free < FULL_BYTES:
            return f"{self._run_dir}: no space left on the device"
        last = [line for line in console.splitlines() if line.strip()][-1:]
        return f"the ranks ended with status {self.poll()}: {last[0] if last else 'no output'}"

    def _hostfile(self) -> str | None:
        """The user's, or one of the allocation's hosts, in the run's folder."""
        if self._config.cluster.name != SLURM:
            return self._config.cluster.hostfile
        path = self._run_dir / "hosts"
        path.write_text("".join(f"{host}\n" for host in allocated_hosts()))
        return str(path)

    def _named(self, rank: int) -> str:
        return f"rank {rank} ({self._config.hosts[rank]})"

    def _command(self) -> list[str]:
        config, names = self._config, self._config.hosts
        program = ["-m", "experiments.rank", str(self._run_dir)]
        ranks = mpi_command(
            len(names),
            self.emulation,
            program,
            self._mpi,
            self._hostfile(),
            tolerant=config.fault_tolerant,
        )
        if self.emulation == "none":
            return ranks
        events = rate_events(config)
        write_trace(self._run_dir / "network_trace.csv", events)
        if self.emulation == "userspace":
            return ranks
        bandwidths = dict.fromkeys(names, config.cluster.bandwidth_bytes_per_s)
        congestion_control = config.cluster.congestion_control
        return bubble_command(
            self._run_dir, bandwidths, congestion_control, events, ranks, self._mpi
        )


def _chosen(config: RunConfig) -> tuple[Emulation, str]:
    """How links are shaped, and why so, where `auto` had to choose."""
    assert isinstance(config.engine, MpiEngineConfig)
    assert config.emulation is not None
    if config.engine.emulation != "auto" or config.emulation == "none":
        return config.emulation, ""
    reason = unavailable()
    return ("netns", "") if reason is None else ("userspace", f"no namespaces here: {reason}")
