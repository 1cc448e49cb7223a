"""Which ranks MPI knows to have failed, and how to wait for sends so that no other rank fails."""

from __future__ import annotations

import time
from typing import Any

from mpi4py import MPI

LOOK_S = 0.05
"""Between two looks: asking costs a few microseconds."""

_FAILED = (MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED)


class Failures:
    """Asks MPI (Open MPI with ULFM) now and then."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self._comm = comm
        self._known: set[int] = set()
        self._next_look = 0.0

    def new(self) -> list[int]:
        """Ranks that have failed since the last call that looked."""
        now = time.monotonic()
        if now < self._next_look:
            return []
        self._next_look = now + LOOK_S
        failed = self._comm.Get_failed()
        ranks = failed.Translate_ranks(list(range(failed.Get_size())), self._comm.Get_group())
        found = [rank for rank in ranks if rank not in self._known]
        self._known.update(found)
        failed.Free()
        return found


def is_over(send: MPI.Request) -> bool:
    """Whether a send has ended, well or not.

    `Test` alone would itself end a send to a rank that has failed; when the transport then drops
    the send's data, Open MPI 5.0 takes the request for a freed one and aborts the process.
    """
    if not send.Get_status():
        return False
    came_to_an_end(send)
    return True


def came_to_an_end(request: MPI.Request, status: MPI.Status | None = None) -> bool:
    """Whether a request has ended, and well: one of a rank that has failed never does."""
    if request == MPI.REQUEST_NULL:  # it has ended already, and not well
        return False
    try:
        return bool(request.Test(status))
    except MPI.Exception as error:
        if not _is_failure(error):
            raise
        return False


def isend(comm: MPI.Comm, data: Any, dst: int, tag: int) -> MPI.Request | None:
    """Start to send; None where MPI knows that the receiver has failed: it comes to nothing."""
    try:
        return comm.Isend([data, MPI.BYTE], dst, tag)
    except MPI.Exception as error:
        if not _is_failure(error):
            raise
        return None


def cancel(request: MPI.Request) -> None:
    """Take a receive back; nothing happens where it has ended.

    As a rank fails, its earlier receives end first: what was on its way may meet one that is too
    short for it, and is thrown away like all else.
    """
    if request == MPI.REQUEST_NULL:
        return
    try:
        request.Cancel()
        request.Wait()
    except MPI.Exception as error:
        if error.Get_error_class() != MPI.ERR_TRUNCATE and not _is_failure(error):
            raise


def _is_failure(error: MPI.Exception) -> bool:
    """Whether MPI complains of a rank that has failed."""
    return error.Get_error_class() in _FAILED
