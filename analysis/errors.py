"""Errors of the analysis; each text is one line fit for a user."""

from __future__ import annotations


class AnalysisError(Exception):
    """What was asked cannot be drawn: a plan, a run's file or a style is missing or malformed."""
