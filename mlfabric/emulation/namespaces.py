"""The few system calls that namespaces need and the standard library lacks."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlfabric.errors import EmulationUnavailable

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 1 << 18
_PR_SET_PDEATHSIG = 1

_HINTS = {
    "/proc/sys/user/max_user_namespaces": "0",
    "/proc/sys/kernel/unprivileged_userns_clone": "0",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1",
}
"""Kernel settings, each with the value that forbids unprivileged user namespaces."""

_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Turn a failure of one step of the set-up into one line that names the step and the reason.

    Raises:
        EmulationUnavailable: in place of any OSError (netlink errors that carry an errno included).
    """
    try:
        yield
    except OSError as error:
        raise EmulationUnavailable(_one_line(what, error.errno, str(error))) from error
    except Exception as error:
        code = getattr(error, "code", None)
        if not isinstance(code, int):
            raise
        raise EmulationUnavailable(_one_line(what, code, str(error))) from error


def unshare(flags: int) -> None:
    """Move the calling process into new namespaces; raises OSError."""
    _checked(_libc.unshare(flags), "unshare")


def mount(kind: str, target: Path, options: str = "") -> None:
    """Mount a fresh file system of this kind (proc, tmpfs); raises OSError."""
    args = (kind.encode(), os.fsencode(target), kind.encode(), 0, options.encode())
    _checked(_libc.mount(*args), f"mount {kind} on {target}")


def bind_mount(source: Path, target: Path) -> None:
    """Make `source` appear at `target`, which must exist; raises OSError."""
    args = (os.fsencode(source), os.fsencode(target), None, _MS_BIND, None)
    _checked(_libc.mount(*args), f"bind {source} to {target}")


def make_mounts_private() -> None:
    """Keep mounts made from now on out of every other mount namespace; raises OSError."""
    _checked(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "make mounts private")


def enter_network(namespace: Path) -> None:
    """Move the calling thread into the network namespace at this path; raises OSError."""
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _checked(_libc.setns(descriptor, CLONE_NEWNET), f"setns {namespace}")
    finally:
        os.close(descriptor)


def die_with_parent(signal_number: int) -> None:
    """Ask the kernel to send this process a signal when the thread that forked it ends."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl PDEATHSIG")


def map_root(outer_uid: int, outer_gid: int) -> None:
    """Be root of a fresh user namespace, and the given user outside; raises OSError."""
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {outer_uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {outer_gid} 1")


def _checked(result: int, what: str) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _one_line(what: str, code: int | None, text: str) -> str:
    name = os.strerror(code) if code else text.splitlines()[0]
    hints = [path for path, value in _HINTS.items() if _read(path) == value]
    reason = f"; this machine sets {', '.join(f'{h}={_HINTS[h]}' for h in hints)}" if hints else ""
    return f"cannot {what}: {name} (errno {code}){reason}"


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
