"""Any runs beside each other: what sets them apart, and how fast each policy is over a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.load import read_config
from analysis.names import flat_params
from analysis.stats import MedianInterval, PairedRatio, PairedSpeedup
from analysis.variants import ASYNC, RING

SETTING, VARIANT = "setting", "variant"
_ASIDE = ("seed", "experiment", "tracking")


@dataclass(frozen=True)
class Ratio:
    """A variant against the baseline in one setting, in pairs of equal seed.

    `median` over 1: ours is faster; infinite where the baseline missed its target, 0 where ours
    did, NaN without an interval or a pair.
    """

    measure: str  # "time_to_target" or "updates_per_s"
    setting: str
    variant: str
    baseline: str
    median: float
    low: float
    high: float
    n: int


def with_labels(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with the columns `setting` and `variant`, from their configurations.

    A group of settings is named where its choices differ among the runs, a single key where it
    differs among runs of the same choice. What belongs to the policy makes the variant.
    """
    flat = [flat_params(read_config(run)) for run in runs.itertuples()]
    groups = dict.fromkeys(key.split(".")[0] for one in flat for key in one)
    labels = {group: _labels(group, flat) for group in groups if group not in _ASIDE}
    variants = labels.pop("policy")
    names = [one["policy.name"] for one in flat]
    settings = [" ".join(filter(None, row)) for row in zip(*labels.values(), strict=True)]
    return runs.assign(
        **{
            SETTING: settings,
            VARIANT: [
                label if label.startswith(name) else f"{name} {label}".strip()
                for name, label in zip(names, variants, strict=True)
            ],
        }
    )


def compare(runs: pd.DataFrame, baseline: str = "auto") -> list[Ratio]:
    """Every variant over the baseline policy, setting by setting; runs as `with_labels` gives them.

    Of several variants of the baseline, the one that is fastest in the median counts.
    """
    rated = runs.assign(updates_per_s=runs["updates_applied"] / runs["elapsed_s"])
    found = []
    for setting, here in rated.groupby(SETTING, sort=False):
        over = _baseline(here, baseline)
        for variant in sorted(set(here[VARIANT]) - {over}):
            found += _ratios(here, str(setting), variant, over)
    return found


def told(ratio: Ratio) -> str:
    """One line on a ratio."""
    what = {"time_to_target": "to the target", "updates_per_s": "updates a second"}[ratio.measure]
    ends = "" if np.isnan(ratio.low) else f" [{ratio.low:.2f}, {ratio.high:.2f}]"
    place = f"{ratio.setting}: " if ratio.setting else ""
    if ratio.median == 0:
        return f"{place}{ratio.variant} missed the target (median of n = {ratio.n})"
    return (
        f"{place}{ratio.variant} over {ratio.baseline}, {what}:"
        f" {ratio.median:.2f}{ends} (n = {ratio.n})"
    )


def as_rows(ratios: Iterable[Ratio]) -> list[dict[str, Any]]:
    """Fit for JSON: an infinite number is "inf", one that is none is null."""
    return [{key: _plain(value) for key, value in asdict(ratio).items()} for ratio in ratios]


def _plain(value: Any) -> Any:
    if not isinstance(value, float) or np.isfinite(value):
        return value
    return None if np.isnan(value) else "inf"


def _labels(group: str, flat: Sequence[Mapping[str, str]]) -> list[str]:
    """What tells the runs apart in this group: its choice, and keys that differ within a choice."""
    choices = [one.get(f"{group}.name", "") for one in flat]
    named = len(set(choices)) > 1
    members = {
        choice: [o for c, o in zip(choices, flat, strict=True) if c == choice] for choice in choices
    }
    differing = {choice: _differing(group, own) for choice, own in members.items()}
    return [
        " ".join(
            [choice] * named + [f"{key.split('.', 1)[1]}={one[key]}" for key in differing[choice]]
        )
        for choice, one in zip(choices, flat, strict=True)
    ]


def _differing(group: str, flat: Sequence[Mapping[str, str]]) -> list[str]:
    """Keys of this group that are not the same in all."""
    keys = sorted(key for key in flat[0] if key.startswith(f"{group}."))
    return [key for key in keys if len({one.get(key) for one in flat}) > 1]


def _baseline(runs: pd.DataFrame, asked: str) -> str:
    policies = list(dict.fromkeys(runs["policy"]))
    usual = [name for name in (asked, RING, ASYNC) if name in policies]
    policy = (usual or policies)[0]
    own = runs[runs["policy"] == policy]
    timed = own["time_to_target_s"].notna().any()
    column, best = ("time_to_target_s", "idxmin") if timed else ("updates_per_s", "idxmax")
    medians = own.groupby(VARIANT)[column].median()
    return str(getattr(medians, best)())


def _ratios(runs: pd.DataFrame, setting: str, variant: str, over: str) -> list[Ratio]:
    interval = MedianInterval()
    times = PairedSpeedup(over, variant, column=VARIANT)(runs)
    rates = PairedRatio(variant, over, VARIANT)(runs, "updates_per_s")
    both = {"time_to_target": times["ratio"], "updates_per_s": rates["ratio"]}
    return [
        Ratio(measure, setting, variant, over, *interval.of(values.to_numpy(dtype=float)))
        for measure, values in both.items()
        if len(values)
    ]
