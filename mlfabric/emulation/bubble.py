"""Runs a command in an emulated cluster: `python -m mlfabric.emulation.bubble SPEC.json`.

Whichever way this process, or the launcher that started it, dies: the kernel takes every process,
namespace and link of the cluster with it, and nothing is ever left to clear. SIGTERM, SIGINT and
SIGHUP end the command in good order.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mlfabric.emulation import init
from mlfabric.emulation.isolation import report, run_isolated
from mlfabric.emulation.spec import read_spec
from mlfabric.errors import MlfabricError


def main(arguments: list[str]) -> int:
    """Run the bubble of one spec file.

    Returns:
        The command's exit status, 128 + signal where a signal killed it; 125 when the bubble itself
        failed.
    """
    try:
        spec = read_spec(Path(arguments[0]))
        launcher = os.pidfd_open(spec.launcher_pid or os.getppid())
        return run_isolated(lambda: init.run(spec), launcher)
    except (MlfabricError, OSError) as error:
        return report(error)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
