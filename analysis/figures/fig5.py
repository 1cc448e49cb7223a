"""fig5: the case for dropping an update before it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from analysis import style
from analysis.cases import Case, numbers
from analysis.findings import Finding
from mlfabric.plan import gantt

PAPER_ALONE_S = 10.0
SLOW = "g1"
TITLES = {"unbounded": "no delay bound", "bounded": "delay bound {bound}"}
CAPTION = (
    "The case for dropping an update before it is sent: the same updates without and with a"
    " bound on delays, as the planner answers. Nothing here is random."
)


def draw(cases: Mapping[str, Case]) -> Figure:
    """The picture: the same updates without a bound and with one."""
    figure, axes = plt.subplots(len(TITLES), figsize=(style.COLUMN_IN, 3.2), sharex=True)
    last_s = max(cases["unbounded"].applied()[0])
    for axis, (name, title) in zip(axes, TITLES.items(), strict=True):
        case = cases[name]
        ids = [update["id"] for update in case.problem["updates"]]
        colors = dict(zip(ids, gantt.COLORS, strict=False))
        gantt.draw(axis, case.problem, case.answer, colors=colors, until_s=last_s)
        bound = title.format(bound=case.problem.get("delay_bound"))
        axis.set_title(f"{bound}: mean completion {case.mean_completion_s:.2f} s", loc="left")
        axis.label_outer()
    alone = f"{alone_s(cases):g} s (paper: {PAPER_ALONE_S:g} s)"
    link = f"{_slow_rate(cases) * 8e-6:g} Mbit/s"
    figure.suptitle(f"{SLOW} alone behind {link}: {alone}", fontsize=8)
    return figure


def summarize(cases: Mapping[str, Case]) -> dict[str, Any]:
    """The numbers behind the picture."""
    return {
        "alone_s": {"paper": PAPER_ALONE_S, "ours": round(alone_s(cases), 6)},
        "dropped": {"paper": [SLOW], "ours": [d["id"] for d in cases["bounded"].answer["dropped"]]},
        "cells": numbers(cases.items()),
    }


def findings(numbers: dict[str, Any]) -> list[Finding]:
    """The paper's times and drops, on our input."""
    alone, dropped = numbers["alone_s"], numbers["dropped"]
    same = abs(alone["ours"] - alone["paper"]) < 1e-9
    names = {who: ", ".join(dropped[who]) or "none" for who in ("ours", "paper")}
    return [
        Finding(f"{SLOW} alone (s)", alone["ours"], "equal", same, alone["paper"]),
        Finding(
            "dropped with the bound",
            names["ours"],
            "equal",
            dropped["ours"] == dropped["paper"],
            names["paper"],
        ),
    ]


def alone_s(cases: Mapping[str, Case]) -> float:
    """When the slow update arrives if no other is sent."""
    return float(cases["alone"].answer["completion"][SLOW])


def _slow_rate(cases: Mapping[str, Case]) -> float:
    """Bytes/s of the link that the slow update sits behind."""
    problem = cases["alone"].problem
    return float(problem["links"][problem["updates"][0]["worker"]]["egress"][0][1])
