"""Benchmarks: each claim is a ratio to a bound or a peer measured in the same run."""
