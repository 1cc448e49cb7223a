"""Every rank enters its host, passes its vector to the next, and checks what it got."""

import os
import socket
import sys

import numpy as np

from mlfabric.emulation.hosts import enter

NAMES = ("scheduler", "server", "w1")

enter(NAMES[int(os.environ["OMPI_COMM_WORLD_RANK"])])

# Importing it starts MPI, which must find itself inside the host.
from mpi4py import MPI  # noqa: E402

comm = MPI.COMM_WORLD
got = np.empty(100_000, np.float32)
mine = np.full_like(got, comm.rank)
comm.Sendrecv(mine, (comm.rank + 1) % comm.size, recvbuf=got, source=(comm.rank - 1) % comm.size)
expected = (comm.rank - 1) % comm.size
interfaces = sorted(name for _, name in socket.if_nameindex())
good = np.all(got == expected) and interfaces == ["eth0", "lo"]
print(f"rank {comm.rank} of {comm.size}: {'good' if good else 'bad'}", flush=True)
sys.exit(0 if good else 1)
