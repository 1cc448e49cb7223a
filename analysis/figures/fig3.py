"""fig3: schedule at server and replica, and their distance under its bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import style
from analysis.cases import Case
from analysis.findings import Finding
from mlfabric.plan import gantt

PAPER = "schematic: the replica follows later, in larger groups, within the bound"
CASE = "bounded"
CAPTION = (
    "Schedule at the server and at its replica, as the planner answers, and the sum of norms by"
    " which the replica lags behind, under its bound. Nothing here is random."
)


def draw(cases: Mapping[str, Case]) -> Figure:
    """The picture: transfers and commits above, the distance of the models below."""
    case = cases[CASE]
    figure, (above, below) = plt.subplots(
        2, figsize=(style.COLUMN_IN, 3.4), sharex=True, height_ratios=(2, 1)
    )
    replica, server = case.problem["replica"]["host"], case.problem["server"]
    hosts = [server, replica, *case.problem["aggregators"]]
    links = [(host, way) for host in hosts for way in ("ingress", "egress")]
    gantt.draw(above, case.problem, case.answer, links)
    above.label_outer()
    _distance(below, case)
    below.set_xlabel("time (s)")
    return figure


def summarize(cases: Mapping[str, Case]) -> dict[str, Any]:
    """The numbers behind the picture."""
    case = cases[CASE]
    groups = case.answer["replica"]["groups"]
    return {
        "paper": PAPER,
        "divergence_bound": case.problem["replica"]["divergence_bound"],
        "max_divergence": round(max(value for _, value in distance(case)), 6),
        "server_s": round(case.answer["groups"][-1]["commit"], 6),
        "replica_s": round(groups[-1]["commit"], 6),
        "replica_groups": [group["members"] for group in groups],
    }


def findings(numbers: dict[str, Any]) -> list[Finding]:
    """Section 4.4's invariant, on our input."""
    bound, reached = numbers["divergence_bound"], numbers["max_divergence"]
    return [
        Finding(
            "largest distance of server and replica (sum of norms)",
            reached,
            f"at most {bound:g}",
            reached <= bound,
            "within the bound",
        )
    ]


def distance(case: Case) -> list[tuple[float, float]]:
    """(from when, summed norms of what the server has applied and the replica has not)."""
    norms = {update["id"]: update["norm"] for update in case.problem["updates"]}
    changes = [(case.problem.get("now", 0.0), case.problem["replica"].get("pending_norm", 0.0))]
    for sign, groups in ((1, case.answer["groups"]), (-1, case.answer["replica"]["groups"])):
        for group in groups:
            changes.append((group["commit"], sign * sum(norms[name] for name in group["members"])))
    steps: dict[float, float] = {}
    value = 0.0
    for time, change in sorted(changes):  # at one instant the replica counts first
        value += change
        steps[time] = value
    return list(steps.items())


def _distance(axis: Axes, case: Case) -> None:
    bound = case.problem["replica"]["divergence_bound"]
    times, values = zip(*distance(case), strict=True)
    axis.axhline(bound, color="0.3", linestyle="--", linewidth=0.8)
    axis.annotate("bound", (0.0, bound), (2, 2), textcoords="offset points", fontsize=6)
    axis.plot(times, values, drawstyle="steps-post", color="black")
    axis.set_ylim(0, 1.3 * bound)
    axis.set_ylabel("distance\n(sum of norms)")
