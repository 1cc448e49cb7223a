"""The planner on its own: a problem in JSON goes in, a plan in JSON comes out."""

from __future__ import annotations

from typing import Any


def answer(problem: dict[str, Any], *, exact: bool = False) -> dict[str, Any]:
    """What `python -m mlfabric.plan` writes for a problem that is parsed already.

    `exact` adds the optimum, as `--exact` does. Raises SettingError, whose one line names the
    first field that is wrong.
    """
    # Imported here, as the chart (mlfabric.plan.gantt) needs neither the planner nor pydantic.
    from mlfabric.plan.solving import solve

    return solve(problem, exact=exact)
