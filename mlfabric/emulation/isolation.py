"""Runs a function as process 1 of namespaces that end with it, with us, and with our launcher."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from mlfabric.emulation import namespaces as ns
from mlfabric.errors import MlfabricError

REPORT_PREFIX = "emulated cluster: "

BUBBLE_FAILED = 125
"""Exit status when the bubble itself failed; anything else is the command's status."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run_isolated(work: Callable[[], int], launcher_fd: int) -> int:
    """Run `work` as process 1 of new namespaces; returns its result, or 128 + fatal signal.

    Everything in the namespaces is killed when `work` returns, when this process ends, or when the
    process behind the pidfd `launcher_fd` ends. SIGTERM, SIGINT and SIGHUP are passed on. The
    caller must have only one thread.

    Raises:
        EmulationUnavailable: the machine forbids such namespaces; names the step.
    """
    # Blocked until there is someone to pass them on to: process 1 would lose a signal that comes
    # too early.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    _separate()
    child, _alive = _fork(work)

    def pass_on(number: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(child_fd, number)

    child_fd = os.pidfd_open(child)
    for number in STOP_SIGNALS:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    return _wait(child, child_fd, launcher_fd)


def _separate() -> None:
    """Move this process, and its future children, into namespaces of their own, as root of them."""
    uid, gid = os.geteuid(), os.getegid()
    with ns.step("create user, network, mount and process namespaces"):
        ns.unshare(ns.CLONE_NEWUSER | ns.CLONE_NEWNET | ns.CLONE_NEWNS | ns.CLONE_NEWPID)
    with ns.step("become root of the new user namespace"):
        ns.map_root(uid, gid)
    with ns.step("make mounts private"):
        ns.make_mounts_private()


def _fork(work: Callable[[], int]) -> tuple[int, int]:
    """Start process 1; returns its id and the pipe end whose closing tells it that we died."""
    alive, hold_open = os.pipe()
    child = os.fork()
    if child:
        os.close(alive)
        return child, hold_open
    os.close(hold_open)
    status = BUBBLE_FAILED
    try:
        ns.die_with_parent(signal.SIGKILL)
        # The parent may have died before the line above; then nobody holds the pipe any more.
        if not select.select([alive], [], [], 0)[0]:
            os.setsid()
            status = work()
    except (MlfabricError, OSError) as error:
        report(error)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(child: int, child_fd: int, launcher_fd: int) -> int:
    ready, _, _ = select.select([child_fd, launcher_fd], [], [])
    if launcher_fd in ready:
        signal.pidfd_send_signal(child_fd, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if status >= 0 else 128 - status


def report(error: Exception) -> int:
    """Tell on standard error why the bubble failed; returns the exit status for it."""
    print(f"{REPORT_PREFIX}{error}", file=sys.stderr)
    return BUBBLE_FAILED
