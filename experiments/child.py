"""A command run to its end, Ctrl-C included: the child cleans up before the parent goes on."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence

from experiments.paths import ROOT
from mlfabric.emulation.namespaces import die_with_parent


def run_child(command: Sequence[str]) -> int:
    """Exit status of a command started in the project's folder, sharing our output.

    The child is in a process group of its own, so that a Ctrl-C of the terminal reaches it once,
    through us: we forward it, wait until the child has cleaned up and raise KeyboardInterrupt.
    Should we die ourselves, the kernel tells the child to stop.
    """
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        process_group=0,
        preexec_fn=lambda: die_with_parent(signal.SIGINT),
    )
    try:
        return child.wait()
    except KeyboardInterrupt:
        child.send_signal(signal.SIGINT)
        child.wait()
        raise
