"""Rank 1 takes a receive back that a message of rank 0 has met, which is too long for it."""

from __future__ import annotations

from mpi4py import MPI

from mlfabric.engines.mpi.failures import cancel

TAG = 7


def main() -> None:
    comm = MPI.COMM_WORLD
    if comm.Get_rank() == 0:
        comm.Barrier()
        comm.Send([bytes(10), MPI.BYTE], 1, TAG)
    else:
        room = bytearray(4)
        too_short = comm.Irecv([room, MPI.BYTE], 0, TAG)
        comm.Barrier()
        while not too_short.Get_status():
            pass
        cancel(too_short)
        assert too_short == MPI.REQUEST_NULL
        cancel(too_short)
        print("taken back")


if __name__ == "__main__":
    main()
