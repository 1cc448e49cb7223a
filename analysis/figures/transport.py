"""transport: what is reached of shaped links, and all-reduce beside its peers."""

from __future__ import annotations

from statistics import median
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import style
from analysis.findings import bench_findings
from analysis.variants import look_of

CAPTION = (
    "Left: share of a shaped link's rate that payload reaches (bars: medians of the dots;"
    " dashed: what TCP's headers leave). Right: time of an all-reduce over the least that the links"
    " allow, twelve hosts at 100 Mbit/s: every operation (dots) and the median."
)
findings = bench_findings
_BESIDE = 0.045  # the dots are left of the mark of their median
_SHARES = {"pair_s": "1 sender", "incast_s": "8 senders"}


def draw(measured: dict[str, Any]) -> Figure:
    """The picture: single links at the left, sums at the right."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(style.PAGE_IN, 2.4), width_ratios=(1, 2.4))
    _links(left, measured)
    _sums(right, measured["sums"])
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels))
    return figure


def summarize(measured: dict[str, Any]) -> dict[str, Any]:
    """Shares of the rate, medians over the bound, and what is claimed of them."""
    return {
        "share_of_rate": {
            label: round(median(_shares(measured["links"], key)), 4)
            for key, label in _SHARES.items()
        },
        "over_bound": {
            case["name"]: {
                name: round(median(values), 4)
                for name, values in _over_bound(measured["sums"], case).items()
            }
            for case in measured["sums"]["cases"]
        },
        "claims": measured["claims"],
    }


def _shares(links: dict[str, Any], key: str) -> list[float]:
    """Share of the receiver's rate at which senders of one message each were heard."""
    senders = 8 if key == "incast_s" else 1
    moved = senders * links["size_bytes"] / links["bandwidth_bytes_per_s"]
    return [moved / seconds for seconds in links[key]]


def _over_bound(sums: dict[str, Any], case: dict[str, Any]) -> dict[str, list[float]]:
    """Seconds of every operation of a case's first size over its bound, by contender."""
    bound_s = next(iter(case["bounds_s"].values()))
    return {
        one["contender"]: [seconds / bound_s for seconds in one["sizes"][0]["seconds"]]
        for one in sums["measured"]
        if one["case"] == case["name"]
    }


def _links(axis: Axes, measured: dict[str, Any]) -> None:
    for place, (key, label) in enumerate(_SHARES.items()):
        shares = _shares(measured["links"], key)
        axis.bar(place, median(shares), 0.6, color="0.75", label=label)
        axis.plot([place] * len(shares), shares, "o", color="0.2", markersize=2.5)
    axis.axhline(measured["payload_bound"], color="0.3", linestyle="--", linewidth=0.8)
    axis.set_xticks(range(len(_SHARES)), list(_SHARES.values()))
    axis.set_ylim(0, 1.05)
    axis.set_ylabel("share of the link's rate")
    axis.grid(visible=False, axis="x")


def _sums(axis: Axes, sums: dict[str, Any]) -> None:
    for place, case in enumerate(sums["cases"]):
        found = _over_bound(sums, case)
        for number, (name, values) in enumerate(found.items()):
            look, at = look_of(name), place + 0.24 * (number - (len(found) - 1) / 2)
            beside = [at - _BESIDE] * len(values)
            axis.plot(beside, values, ".", color=look.color, markersize=3, alpha=0.5)
            label = name if place == 0 else None
            middle = median(values)
            axis.plot(at, middle, look.marker, color=look.color, markersize=6, label=label)
            axis.annotate(
                f"{middle:.2f}",
                (at, middle),
                xytext=(6, -2.5),
                fontsize=6,
                textcoords="offset points",
            )
    axis.axhline(1.0, color="0.3", linestyle="--", linewidth=0.8)
    axis.set_xticks(range(len(sums["cases"])), [case["name"] for case in sums["cases"]])
    axis.set_xlim(-0.5, len(sums["cases"]) - 0.4)
    axis.set_ylim(0, 1.08 * axis.get_ylim()[1])
    axis.set_ylabel("time / bound of the links")
    axis.grid(visible=False, axis="x")
