"""A real Slurm on this machine: controller and one node, everything in one folder."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PROGRAMS = ("setpriv", "munged", "slurmctld", "slurmd", "sinfo", "squeue", "scancel", "sbatch")
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
NODE = "n0"
CPUS = 16  # so that a job of several tasks fits on few cores

# submitit asks sacct, which knows nothing without an accounting database; squeue does.
SACCT = """#!/bin/sh
ids=""
while [ $# -gt 0 ]; do [ "$1" = -j ] && { ids="$ids,$2"; shift; }; shift; done
echo "JobID|State|NodeList"
exec squeue -h -r -t all -j "${ids#,}" -o "%i|%T|%N" 2>/dev/null
"""


def missing() -> list[str]:
    """The programs of Slurm that this machine lacks."""
    return [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]


@contextlib.contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Run a Slurm whose jobs see `folder` as their cluster; gives what its clients need in their
    environment. A path of a socket has at most 107 characters: the folder's must be short."""
    folder.mkdir(parents=True, exist_ok=True)
    env = {"SLURM_CONF": f"{folder}/slurm.conf", "PATH": f"{folder}/bin:{PATH}"}
    _configure(folder)
    daemons: list[subprocess.Popen[bytes]] = []

    def start(*command: str) -> None:
        with (folder / f"{command[0]}.out").open("wb") as out:
            daemons.append(
                subprocess.Popen(
                    ["setpriv", "--pdeathsig=TERM", *command],
                    env={**os.environ, **env},
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
            )

    def ask(*command: str) -> str:
        return subprocess.run(
            command, env={**os.environ, **env}, capture_output=True, text=True, timeout=60
        ).stdout

    files = [f"--{kind}-file={folder}/munge.{kind}" for kind in ("key", "pid", "log", "seed")]
    try:
        start("munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *files)
        _wait(lambda: (folder / "munge.socket").exists(), daemons)
        start("slurmctld", "-D", "-i", "-f", env["SLURM_CONF"])
        start("slurmd", "-D", "-N", NODE, "-f", env["SLURM_CONF"])
        _wait(lambda: ask("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"], daemons)
        yield env
    finally:
        ask("scancel", f"--user={os.getuid()}")
        _wait(lambda: not ask("squeue", "-h").strip(), [])
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(15)
        _end_leftovers(folder)


def _end_leftovers(folder: Path) -> None:
    """Steps that a job has left; a process that is killed is there a moment longer."""
    deadline = time.monotonic() + 15
    while left := leftovers(folder):
        assert time.monotonic() < deadline, left
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.05)


def leftovers(folder: Path) -> list[int]:
    """Processes of this cluster: of its jobs by their environment, of steps by where they work."""
    found = []
    for entry in (path for path in Path("/proc").iterdir() if path.name.isdigit()):
        with contextlib.suppress(OSError):
            mark = f"SLURM_CONF={folder}/slurm.conf".encode()
            ours = mark in (entry / "environ").read_bytes() or (entry / "cwd").readlink() == folder
            if ours and (entry / "cmdline").read_bytes() and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


def _wait(holds: Callable[[], bool], daemons: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        assert all(daemon.poll() is None for daemon in daemons)
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _configure(folder: Path) -> None:
    host = socket.gethostname().partition(".")[0]
    user = pwd.getpwuid(os.getuid()).pw_name
    lines = [
        "ClusterName=test",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={_free_port()}",
        f"SlurmUser={user}",
        f"SlurmdUser={user}",
        "AuthType=auth/munge",
        f"AuthInfo=socket={folder}/munge.socket,cred_expire=5",
        f"StateSaveLocation={folder}/state",
        f"SlurmdSpoolDir={folder}/spool",
        f"SlurmctldPidFile={folder}/slurmctld.pid",
        f"SlurmdPidFile={folder}/slurmd.pid",
        f"SlurmctldLogFile={folder}/slurmctld.log",
        f"SlurmdLogFile={folder}/slurmd.log",
        "ProctrackType=proctrack/pgid",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU",
        "SchedulerParameters=batch_sched_delay=0,sched_interval=1",
        "SlurmdParameters=config_overrides",
        "MpiDefault=none",
        "MailProg=/bin/true",
        "ReturnToService=2",
        "MinJobAge=3600",
        "KillWait=2",
        f"NodeName={NODE} NodeHostname={host} NodeAddr=127.0.0.1 Port={_free_port()} CPUs={CPUS}"
        " RealMemory=65536 State=UNKNOWN",
        f"PartitionName=test Nodes={NODE} Default=YES MaxTime=INFINITE State=UP",
    ]
    (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
    for name in ("state", "spool", "bin"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    sacct = folder / "bin" / "sacct"
    sacct.write_text(SACCT)
    sacct.chmod(0o755)
