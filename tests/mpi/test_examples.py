"""The examples of the docs: several workers train to what one trains to with the total batch."""

from __future__ import annotations

import os
import re
import socket
import subprocess

import pytest

from experiments.mpi_library import library
from experiments.mpiexec import environment, mpi_command
from experiments.paths import ROOT

TOLERANCE = 1e-3
"""Relative; sums of float32 in another order."""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def loss(example, ranks, *arguments, mpi="openmpi"):
    chosen = library(mpi)
    program = [f"docs/examples/{example}.py", *arguments]
    done = subprocess.run(
        mpi_command(ranks, "none", program, chosen),
        env={**os.environ, **environment("none", chosen), "MASTER_PORT": str(free_port())},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return float(re.search(r"loss (\S+)", done.stdout)[1])


@pytest.mark.parametrize(("example", "mpi"), [("torch_train", "mpich"), ("keras_train", "openmpi")])
def test_synchronous_training_comes_to_what_one_process_does(example, mpi):
    alone = loss(example, 1)
    assert 0.01 < alone < 0.5
    assert loss(example, 4, mpi=mpi) == pytest.approx(alone, rel=TOLERANCE)


def test_the_hook_of_ddp_comes_to_the_same():
    assert loss("torch_ddp", 4) == pytest.approx(loss("torch_train", 1), rel=TOLERANCE)


@pytest.mark.parametrize(("example", "mode"), [("torch_train", "ssp"), ("keras_train", "async")])
def test_with_a_server_all_workers_together_learn(example, mode):
    """Each worker's share of the batch is a step of its own; the untrained model's loss is 2.3."""
    assert loss(example, 4, mode) < 1.0
