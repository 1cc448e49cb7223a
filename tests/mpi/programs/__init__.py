"""Programs that tests start as MPI ranks."""
