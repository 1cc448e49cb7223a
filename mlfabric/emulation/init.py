"""Process 1 of a bubble: builds the network, runs the command, plays the trace, reaps."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import closing
from pathlib import Path

from mlfabric.emulation import namespaces as ns
from mlfabric.emulation.calibration import calibrate
from mlfabric.emulation.controller import TraceController
from mlfabric.emulation.isolation import STOP_SIGNALS
from mlfabric.emulation.network import Network
from mlfabric.emulation.spec import BubbleSpec

COMMAND_NOT_FOUND = 127

_GRACE_S = 2.0
_SCRATCH = Path("/run/tmp")


def run(spec: BubbleSpec) -> int:
    """Hold one run; returns the command's status, 128 + signal where a signal killed it.

    Raises:
        EmulationUnavailable: the machine forbids a step; names the step.
        OSError: run_dir or cwd cannot be used.
    """
    furnish()
    network = Network(spec.hosts, spec.congestion_control)
    calibrate(spec, network)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *STOP_SIGNALS})
    with closing(TraceController(spec, network.set_rate)) as controller:
        command = _start(spec)
        return COMMAND_NOT_FOUND if command is None else _supervise(command, controller)


def furnish() -> None:
    """Mount what must not be shared with the machine outside; raises EmulationUnavailable."""
    with ns.step("mount /proc"):
        ns.mount("proc", Path("/proc"))
    for shared in (Path("/run"), Path("/dev/shm")):
        with ns.step(f"mount a tmpfs on {shared}"):
            ns.mount("tmpfs", shared, "mode=1777")
    _SCRATCH.mkdir()


def _start(spec: BubbleSpec) -> int | None:
    """Start the command, without our blocked signals; None when there is no such program."""
    # Temporary files of two bubbles would meet in /tmp: process numbers, often part of their names,
    # are equal there.
    env = {**os.environ, "TMPDIR": str(_SCRATCH), **spec.env}
    os.chdir(spec.cwd)
    program = shutil.which(spec.command[0], path=env.get("PATH"))
    if program is None:
        print(f"emulated cluster: no program {spec.command[0]!r}", file=sys.stderr)
        return None
    no_input = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    return os.posix_spawn(
        program, spec.command, env, file_actions=[no_input], setsigmask=[], setsigdef=STOP_SIGNALS
    )


def _supervise(command: int, controller: TraceController) -> int:
    """Play the trace until the command ends; after a stop signal, patience is short."""
    give_up_s: float | None = None
    while True:
        now_s = time.monotonic()
        if give_up_s is not None and now_s >= give_up_s:
            return 128 + signal.SIGTERM
        waits = [controller.play(now_s), None if give_up_s is None else give_up_s - now_s]
        number = _next_signal(min((w for w in waits if w is not None), default=None))
        if number == signal.SIGCHLD:
            status = _reap(command)
            if status is not None:
                return status
        elif number is not None:
            os.kill(command, signal.SIGTERM)
            give_up_s = now_s if give_up_s is not None else now_s + _GRACE_S


def _next_signal(timeout_s: float | None) -> int | None:
    awaited = {signal.SIGCHLD, *STOP_SIGNALS}
    if timeout_s is None:
        return signal.sigwaitinfo(awaited).si_signo
    info = signal.sigtimedwait(awaited, timeout_s)
    return None if info is None else info.si_signo


def _reap(command: int) -> int | None:
    """Collect every dead child, adopted ones too; returns the command's status if among them."""
    result: int | None = None
    while True:
        try:
            pid, raw = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return result
        if pid == 0:
            return result
        if pid == command:
            status = os.waitstatus_to_exitcode(raw)
            result = status if status >= 0 else 128 - status
