"""Runs of the evaluation: typed settings, launching, evaluation, records and tracking."""
