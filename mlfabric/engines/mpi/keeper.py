"""A process that holds a rank's connections open a little longer than the rank lives.

When a process dies, the kernel closes its connections, and Open MPI at the other ends drops the
paths to it before it has learned that the process has failed: whoever sends to it in between
crashes. With the connections still open, the failure is known first.
"""

from __future__ import annotations

import os
import re
import socket
import time
from pathlib import Path

HOLD_S = 1.5
"""Failures are known everywhere after a few hundredths of a second."""

_BATCH = 100
_DESCRIPTORS = Path("/proc/self/fd")
_DISMISSED = b"d"


class Keeper:
    """Started before MPI is: the child has nothing but its end of a line to this process."""

    def __init__(self) -> None:
        self._line, other = socket.socketpair()
        self._child = os.fork()
        if self._child == 0:
            try:
                _hold(other)
            finally:
                os._exit(0)
        other.close()

    def take_connections(self) -> None:
        """Hold what is connected to other ranks by now; not to the launcher, which is to notice."""
        kept = [number for number in _connections() if number != self._line.fileno()]
        for begin in range(0, len(kept), _BATCH):
            socket.send_fds(self._line, [b"k"], kept[begin : begin + _BATCH])

    def dismiss(self) -> None:
        """This process ends in good order."""
        self._line.send(_DISMISSED)
        self._line.close()
        os.waitpid(self._child, 0)


def _hold(line: socket.socket) -> None:
    """Keep what comes until the line is closed, and a little longer."""
    own = line.fileno()
    for number in sorted(int(entry.name) for entry in _DESCRIPTORS.iterdir()):
        if number != own:
            _close(number)
    while True:
        told, _, _, _ = socket.recv_fds(line, 1, _BATCH)
        if told == _DISMISSED:
            return
        if not told:
            time.sleep(HOLD_S)
            return


def _close(number: int) -> None:
    try:
        os.close(number)
    except OSError:  # the listing's own
        return


def _connections() -> list[int]:
    """Descriptors of TCP connections, the launcher's left out."""
    launcher = {int(port) for uri in _launcher_addresses() for port in re.findall(r":(\d+)$", uri)}
    found = []
    for entry in list(_DESCRIPTORS.iterdir()):
        try:
            one = socket.socket(fileno=os.dup(int(entry.name)))
        except OSError:
            continue
        with one:
            if _is_kept(one, launcher):
                found.append(int(entry.name))
    return found


def _is_kept(one: socket.socket, launcher: set[int]) -> bool:
    if one.family != socket.AF_INET or one.type != socket.SOCK_STREAM:
        return False
    try:
        return one.getpeername()[1] not in launcher
    except OSError:  # it listens
        return False


def _launcher_addresses() -> list[str]:
    """Where PMIx reaches the launcher, as it tells its processes."""
    told = (value for name, value in os.environ.items() if name.startswith("PMIX_SERVER_URI"))
    return [part for value in told for part in value.split(";") if part.startswith("tcp")]
