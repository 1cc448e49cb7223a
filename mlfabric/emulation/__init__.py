"""A cluster in private namespaces of one machine, its links shaped by the kernel."""
