"""Randomised faults: schedules drawn from a seed, carried out, and held against invariants."""
