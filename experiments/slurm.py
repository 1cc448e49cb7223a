"""The hosts of the Slurm allocation that this process is in."""

from __future__ import annotations

import os
import subprocess

from mlfabric.errors import SettingError

STEPS = {"SLURM_OVERLAP": "1"}
"""For the environment of what starts ranks: they share what the step that we are in holds."""

_NODES = "SLURM_JOB_NODELIST"


def allocated_hosts() -> list[str]:
    """Names of the allocation's hosts, in order; raises SettingError where there is none."""
    nodes = os.environ.get(_NODES)
    if not nodes:
        raise SettingError(
            "cluster=slurm: must be started in a Slurm allocation, by salloc or sbatch,"
            " or by -m hydra/launcher=submitit_slurm"
        )
    command = ["scontrol", "show", "hostnames", nodes]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise SettingError(f"cluster=slurm: {' '.join(command)}: {error}") from None
    return done.stdout.split()
