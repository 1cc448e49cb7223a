"""Bandwidth classes: by which factor the slowest link of a message's path was slowed down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# Transfers that carry updates, alone or summed; models are no update messages.
UPDATE_KINDS = ("update", "sum", "share")


@dataclass(frozen=True)
class LinkFactors:
    """Factor of every host's links over a run: `factor` from `time_s` on, 1 before.

    `changes` has columns time_s, host, factor.
    """

    changes: pd.DataFrame
    end_s: float

    def of_path(self, hosts: tuple[str, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(start times, factors) of a path's slowest link, piecewise constant from time 0 on."""
        ours = self.changes[self.changes["host"].isin(hosts)]
        inside = ours["time_s"][ours["time_s"].between(0.0, self.end_s, inclusive="left")]
        starts = np.unique(np.concatenate([[0.0], inside.to_numpy(dtype=float)]))
        factors = [_at(ours[ours["host"] == host], starts) for host in hosts]
        return starts, np.min(factors, axis=0)

    def shares_of_time(self, hosts: tuple[str, ...]) -> pd.Series:
        """Share of the run that a path spent in each class; the index holds the factors."""
        starts, factors = self.of_path(hosts)
        lengths = np.diff(np.append(starts, self.end_s))
        return pd.Series(lengths / self.end_s).groupby(factors).sum()


def class_shares(trace: pd.DataFrame, factors: LinkFactors) -> pd.DataFrame:
    """Update messages of a run by the class of their path when they started.

    Takes a run's transfers (kind, src, dst, next_hop, started_s). Returns one row a class, slowest
    first: factor, messages, share (of the run's update messages), time_share (of the run that the
    same paths spent in that class: the share that blind sending would give).
    """
    hops = trace["next_hop"].fillna(trace["dst"])
    crossing = trace["started_s"].notna() & (
        trace["src"] != hops
    )  # what stays on its host does not
    messages = trace[trace["kind"].isin(UPDATE_KINDS) & crossing]
    counts: dict[float, int] = {}
    expected: dict[float, float] = {}
    for path, sent in messages.groupby(["src", hops[messages.index]])["started_s"]:
        starts, levels = factors.of_path(path)
        places = np.searchsorted(starts, sent.to_numpy(), side="right") - 1
        for level in levels[np.maximum(places, 0)]:
            counts[level] = counts.get(level, 0) + 1
        for level, share in factors.shares_of_time(path).items():
            expected[level] = expected.get(level, 0.0) + share * len(sent) / len(messages)
    frame = pd.DataFrame(
        [(level, counts.get(level, 0), expected[level]) for level in sorted(expected)],
        columns=["factor", "messages", "time_share"],
    )
    return frame.assign(share=frame["messages"] / max(len(messages), 1))


def _at(changes: pd.DataFrame, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Factor of one host at these times."""
    ordered = changes.sort_values("time_s", kind="stable")
    last = np.searchsorted(ordered["time_s"].to_numpy(), times_s, side="right")
    levels = np.concatenate([[1.0], ordered["factor"].to_numpy(dtype=float)])
    return np.asarray(levels[last])
