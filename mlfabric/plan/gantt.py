"""A plan as a Gantt chart: one lane a link, bars as high as their share of its rate."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from mlfabric.plan.lanes import Commit, Json, Lane, commits, end_s, lanes, replica_commits

# seaborn's color-blind-safe palette.
COLORS = ("#0173b2", "#de8f05", "#029e73", "#cc78bc", "#ca9161", "#56b4e9", "#d55e00", "#949494")
FORMATS: Mapping[str, Mapping[str, str | None]] = {
    ".png": {"Software": None},
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
}
"""Endings that `save` knows, with the metadata that keeps dates out of the file."""

MOST_LANES = 150
WIDTH_IN = 7.0
_LANE_IN = (0.15, 0.28)  # lowest, highest
_FONT_PT = 6.0
_HEIGHT = 0.84  # of a lane; the rest keeps it from the next
_DPI = 200
_MOST_LINES = 3  # of a label


def save(problem: Json, answer: Json, path: Path) -> None:
    """Write the chart of a planner's input and output; the same ones give the same bytes.

    The ending of `path` is one of FORMATS. The file is complete whenever it is there.
    """
    ending, image = path.suffix.lower(), BytesIO()
    with mpl.rc_context({"svg.hashsalt": "mlfabric", "svg.fonttype": "none"}):
        figure = Figure(layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        drawn = draw(axes, problem, answer)
        lane_in = min(max(6.0 / drawn, _LANE_IN[0]), _LANE_IN[1])
        figure.set_size_inches(WIDTH_IN, 0.8 + drawn * lane_in)
        axes.set_title(_headline(answer), loc="left", fontsize=8)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # of a name in a rare script
            how: dict[str, Any] = {"format": ending[1:], "metadata": dict(FORMATS[ending])}
            figure.savefig(image, dpi=_DPI, **how)
    _replace(path, image.getvalue())


def _replace(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".mlfabric-{os.getpid()}{path.suffix}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def draw(
    axes: Axes,
    problem: Json,
    answer: Json,
    links: Collection[tuple[str, str]] | None = None,
    colors: Mapping[str, str] | None = None,
    until_s: float = -math.inf,
) -> int:
    """Draw a plan into `axes`; returns the number of rows.

    Rows from the top: the model's versions, the replica's, every used link (or those of `links`,
    as (host, direction)), what is dropped. `colors` of updates; by default one a group. The time
    axis reaches at least to `until_s`.
    """
    colors = colors or group_colors(answer)
    chosen = [lane for lane in lanes(problem, answer) if links is None or lane.link in links]
    last_s = max(end_s(problem, answer), until_s)
    rows = _Rows(axes, colors, problem.get("now", 0.0), last_s)
    version = int(problem.get("version", 0))  # may be written as 1e3
    rows.commits("model version", commits(answer, version))
    if answer.get("replica"):
        rows.commits("replica version", replica_commits(answer, version))
    for lane in _busiest(chosen):
        rows.link(lane)
    if len(chosen) > MOST_LANES:
        rows.text("…", [f"{len(chosen) - MOST_LANES} links of less use are not shown"])
    if answer["dropped"]:
        rows.text("dropped", _dropped(answer["dropped"]))
    return rows.finish()


def group_colors(answer: Json) -> dict[str, str]:
    """A color for every update: that of its group, neighbors in commit order differ."""
    return {
        name: COLORS[number % len(COLORS)]
        for number, group in enumerate(answer["groups"])
        for name in group["members"]
    }


class _Rows:
    """Fills axes from the top, one row at a time."""

    def __init__(
        self, axes: Axes, colors: Mapping[str, str], start_s: float, last_s: float
    ) -> None:
        self._axes = axes
        self._colors = colors
        self._start_s = start_s
        self._last_s = last_s if last_s > start_s else start_s + 1.0
        self._names: list[str] = []

    def commits(self, name: str, made: Sequence[Commit]) -> None:
        """A tick for each commit; a line leads to it from the arrival of what waits for it."""
        y = self._next(name)
        before_s = self._start_s
        for at_s, together in groupby(made, key=lambda commit: commit.at_s):
            self._instant(y, before_s, list(together))
            before_s = at_s

    def _instant(self, y: float, before_s: float, together: Sequence[Commit]) -> None:
        """The commits of one instant, from the top down; their text reaches back to `before_s`."""
        at_s, height = together[0].at_s, _HEIGHT / len(together)
        for place, commit in enumerate(together, start=1):
            low = y + _HEIGHT - place * height
            color = self._colors[commit.updates[0]]
            self._axes.vlines(at_s, low, low + height, color=color, linewidth=1.5)
            self._axes.hlines(low + 0.06 * height, commit.arrived_s, at_s, color=color)
        gap_s = 0.008 * (self._last_s - self._start_s)
        room = (before_s + gap_s, at_s - gap_s, y, y + _HEIGHT)
        self._write(room, _version_texts(together), horizontalalignment="right")

    def link(self, lane: Lane) -> None:
        """Bars as high as their share of the link's rate."""
        host, direction = lane.link
        y = self._next(f"{_short(host)} {direction}")
        span = self._last_s - self._start_s
        self._axes.broken_barh([(self._start_s, span)], (y, _HEIGHT), facecolor="0.95", zorder=0)
        for bar in lane.bars:
            color = self._colors.get(bar.updates[0], "0.6")
            base, top = (y + _HEIGHT * part for part in (bar.bottom, bar.bottom + bar.share))
            look: dict[str, Any] = {"facecolor": color, "edgecolor": "white", "linewidth": 0.3}
            self._axes.stairs(top, bar.edges_s, baseline=base, fill=True, **look)
            start, end, low, high = bar.widest()
            room = (start, end, y + _HEIGHT * low, y + _HEIGHT * high)
            self._write(room, _names(bar.updates), color=_readable_on(color))

    def text(self, name: str, texts: Sequence[str]) -> None:
        """The first of these texts that fits into a row."""
        y = self._next(name)
        room = (self._start_s, self._last_s, y, y + _HEIGHT)
        self._write(room, texts, horizontalalignment="left")

    def finish(self) -> int:
        """Label the axes; returns the number of rows."""
        count = len(self._names)
        middles = [_HEIGHT / 2 - row for row in range(1, count + 1)]
        self._axes.set_yticks(middles, self._names, fontsize=_FONT_PT, parse_math=False)
        self._axes.tick_params(axis="y", length=0)
        self._axes.tick_params(axis="x", labelsize=_FONT_PT + 1)
        self._axes.set_ylim(-count - 0.1, 0.0)
        margin = 0.01 * (self._last_s - self._start_s)
        self._axes.set_xlim(self._start_s - margin, self._last_s + margin)
        self._axes.set_xlabel("time (s)", fontsize=_FONT_PT + 2)
        self._axes.grid(visible=False, axis="y")
        return count

    def _next(self, name: str) -> float:
        """The lower edge of a new row."""
        self._names.append(name)
        return -float(len(self._names))

    def _write(
        self, room: tuple[float, float, float, float], texts: Sequence[str], **look: Any
    ) -> None:
        self._axes.add_artist(FittingText(room, texts, **look))


class FittingText(Text):
    """Shows the first of several texts that fits its room, in data coordinates; else nothing."""

    def __init__(
        self, room: tuple[float, float, float, float], texts: Sequence[str], **look: Any
    ) -> None:
        left, right, low, high = room
        sides = {"left": left, "right": right, "center": (left + right) / 2}
        look = {"horizontalalignment": "center", "fontsize": _FONT_PT, **look}
        x = sides[look["horizontalalignment"]]
        super().__init__(x, (low + high) / 2, "", verticalalignment="center", **look)
        self.set_parse_math(False)
        self.set_in_layout(False)
        self._room = np.array([[left, low], [right, high]])
        self._texts = texts

    def draw(self, renderer: RendererBase) -> None:
        """Decide by the final size of the axes."""
        assert self.axes is not None
        (left, low), (right, high) = self.axes.transData.transform(self._room)
        for text in self._texts:
            self.set_text(text)
            box = self.get_window_extent(renderer)
            # A line's box holds room for descenders that a bar need not have.
            if box.width <= right - left and 0.75 * box.height <= high - low:
                super().draw(renderer)
                return
        self.set_text("")


def _busiest(chosen: list[Lane]) -> list[Lane]:
    """At most MOST_LANES of them, those that carry most transfers, in their order."""
    by_use = sorted(range(len(chosen)), key=lambda place: -len(chosen[place].bars))
    shown = {0, *by_use[:MOST_LANES]} if len(chosen) > MOST_LANES else set(by_use)
    return [chosen[place] for place in sorted(shown)][:MOST_LANES]


def _names(updates: Sequence[str]) -> list[str]:
    """The label of a transfer, shorter and shorter."""
    short = [_short(name) for name in updates]
    if len(short) == 1:
        return short
    whole = ["+".join(short)] if len(short) <= 8 else []
    return [*whole, f"{short[0]}+…+{short[-1]}", f"Σ{len(short)}"]


def _version_texts(together: Sequence[Commit]) -> list[str]:
    """The label of the commits of one instant, shorter and shorter."""
    shortest = f"v{together[-1].version}"
    if len(together) == 1:
        return [*(f"{shortest}: {text}" for text in _names(together[0].updates)), shortest]
    if len(together) > _MOST_LINES:
        return [shortest]
    lines = (f"v{commit.version}: {_names(commit.updates)[0]}" for commit in together)
    return ["\n".join(lines), shortest]


def _dropped(dropped: Sequence[Json]) -> list[str]:
    """All of them with their delays, then fewer and fewer, then their number."""
    texts = [f"{_short(drop['id'])} (delay {drop['delay']})" for drop in dropped[:12]]
    fewer = [
        f"{', '.join(texts[:count])} and {len(dropped) - count} more"
        for count in range(len(texts), 0, -1)
        if count < len(dropped)
    ]
    whole = [", ".join(texts)] if len(texts) == len(dropped) else []
    return [*whole, *fewer, str(len(dropped))]


def _headline(answer: Json) -> str:
    kept, dropped = len(answer["order"]), len(answer["dropped"])
    parts = [f"{kept} updates in {len(answer['groups'])} groups"]
    if kept:
        parts.append(f"mean completion {answer['mean_completion']:.4g} s")
    if dropped:
        parts.append(f"{dropped} dropped")
    if answer.get("replica"):
        parts.append(f"divergence at most {answer['replica']['max_divergence']:.4g}")
    return ", ".join(parts)


def _short(name: str, longest: int = 14) -> str:
    """A name on one line, its middle left out where it is long."""
    plain = "".join(char if char.isprintable() else "?" for char in name)
    if len(plain) <= longest:
        return plain
    return f"{plain[: longest // 2]}…{plain[-(longest // 2 - 1) :]}"


def _readable_on(color: str) -> str:
    """Black or white, whichever stands out from the color."""
    red, green, blue = to_rgb(color)
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else "black"
