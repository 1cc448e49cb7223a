"""Real MPI ranks: scheduler, server and workers, one process each."""
