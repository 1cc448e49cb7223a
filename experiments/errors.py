"""What can go wrong with a run whose settings were sound; every text starts with one clear line."""

from __future__ import annotations


class RunFailed(Exception):
    """The run cannot end with a result."""


class RecordsError(RunFailed):
    """The records of the ranks are missing, torn or contradict each other."""
