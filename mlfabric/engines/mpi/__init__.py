"""Real MPI ranks: scheduler, server and workers, one process each."""

import mpi4py

# One thread of a rank at a time talks to MPI; to be said before anything imports mpi4py.MPI.
mpi4py.rc.thread_level = "serialized"
