"""fig6: groups of an ordered batch: some straight to the server, the next summed meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import style
from analysis.cases import Case, numbers
from analysis.findings import Finding
from mlfabric.plan import gantt

PAPER = [["u1", "u2", "u3"], ["u4", "u5"], ["u6"]]
CASE = "groups"
CAPTION = (
    "Groups of an ordered batch, as the planner answers: some updates go straight to the server"
    " while the next ones are summed at an aggregator. Nothing here is random."
)


def draw(cases: Mapping[str, Case]) -> Figure:
    """The picture: the server's and the aggregator's links, the paper's groups named above."""
    case = cases[CASE]
    figure, axis = plt.subplots(figsize=(style.COLUMN_IN, 2.2))
    hosts = [case.problem["server"], *case.problem["aggregators"]]
    links = [(host, way) for host in hosts for way in ("ingress", "egress")]
    gantt.draw(axis, case.problem, case.answer, links)
    for number, members in enumerate(groups(case), start=1):
        known = PAPER[number - 1] if number <= len(PAPER) else ["–"]
        name = f"G{number}\npaper: {' '.join(known)}"
        _bracket(axis, name, _span(case, members))
    return figure


def summarize(cases: Mapping[str, Case]) -> dict[str, Any]:
    """The numbers behind the picture."""
    found = groups(cases[CASE])
    return {"groups": {"paper": PAPER, "ours": found}, "cells": numbers(cases.items())}


def findings(numbers: dict[str, Any]) -> list[Finding]:
    """The paper's groups, on our input."""
    found = numbers["groups"]
    names = {who: "; ".join(" ".join(group) for group in found[who]) for who in ("ours", "paper")}
    same = found["ours"] == found["paper"]
    return [Finding("groups", names["ours"], "equal", same, names["paper"])]


def groups(case: Case) -> list[list[str]]:
    """As the paper counts them: what is sent straight before the first sum is one group."""
    found: list[list[str]] = [[]]
    for group in case.answer["groups"]:
        if group["via"] is None and len(found) == 1:
            found[0] += group["members"]
        else:
            found.append(group["members"])
    return [members for members in found if members]


def _span(case: Case, members: list[str]) -> tuple[float, float]:
    """From the first to the last byte of a group at the server."""
    server = case.problem["server"]
    pieces = [
        piece
        for transfer in case.answer["transfers"]
        if transfer["dst"] == server and {*members}.issuperset(_carried(transfer))
        for piece in transfer["pieces"]
    ]
    return min(piece[0] for piece in pieces), max(piece[1] for piece in pieces)


def _carried(transfer: dict[str, Any]) -> list[str]:
    what = transfer["what"]
    return [what] if isinstance(what, str) else what


def _bracket(axis: Axes, name: str, span: tuple[float, float]) -> None:
    """A named line above the axes."""
    place = axis.get_xaxis_transform()
    start, end = span
    gap = 0.05
    axis.plot([start + gap, end - gap], [1.04] * 2, color="0.3", transform=place, clip_on=False)
    middle = (start + end) / 2
    axis.text(middle, 1.06, name, transform=place, ha="center", va="bottom", fontsize=6)
