"""Can this machine hold an emulated cluster? Found out by building a small one."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

from mlfabric.emulation.isolation import REPORT_PREFIX, report, run_isolated
from mlfabric.errors import MlfabricError

_TIMEOUT_S = 30.0


@cache
def unavailable() -> str | None:
    """None where bubbles work, else one line that says which step this machine forbids, and why.

    Takes about half a second the first time; nothing is left behind.
    """
    command = [sys.executable, "-m", __name__]
    try:
        probe = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return f"building two emulated hosts took more than {_TIMEOUT_S:.0f} s"
    if probe.returncode == 0:
        return None
    lines = probe.stderr.strip().splitlines() or [f"the probe ended with {probe.returncode}"]
    return lines[-1].removeprefix(REPORT_PREFIX)


def _build() -> int:
    # Here, as only the probe needs them and they take a while to import.
    from mlfabric.emulation.init import furnish
    from mlfabric.emulation.network import Network
    from mlfabric.emulation.spec import HostSpec

    furnish()
    Network((HostSpec("w1", 1e6), HostSpec("w2", 1e6)), "cubic").close()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(run_isolated(_build, os.pidfd_open(os.getppid())))
    except (MlfabricError, OSError) as error:
        sys.exit(report(error))
