"""fig10, scale and claim_halving: what they show, against values worked out by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from analysis.bounds import Bounds
from analysis.errors import AnalysisError
from analysis.figures import claim_halving, fig10, scale
from analysis.iterations import with_iterations
from analysis.variants import ASYNC, PAPER_MODE, RING
from tests.figures.virtual_runs import recorded, recorded_run, run_row, write_config

INF, NAN = math.inf, math.nan


def line(axis: Axes, label: str) -> Any:
    return next(line for line in axis.lines if line.get_label() == label)


def swept(folder: Path, seeds: int = 3) -> list[dict[str, Any]]:
    """Bounds of n/2, n and none; iterations 400 + 10 seed, 440 …, 500 …; delays 10, 20, 30."""
    settings = [(15, 10, 400), (30, 20, 440), (NAN, 30, 500)]
    return [
        recorded_run(
            folder, PAPER_MODE, base + 10 * seed, seed=seed, delay_bound=bound, mean_delay=delay
        )
        for bound, delay, base in settings
        for seed in range(seeds)
    ]


def test_iterations_are_the_version_of_the_first_snapshot_at_the_target(tmp_path: Path) -> None:
    rows = [
        recorded_run(tmp_path, ASYNC, 70),
        recorded_run(tmp_path, ASYNC, 80, seed=1) | {"time_to_target_s": INF},
        recorded_run(tmp_path, ASYNC, 80, seed=2) | {"time_to_target_s": NAN},
    ]
    found = with_iterations(recorded(rows).runs)["iterations"].tolist()
    assert found[:2] == [70.0, INF]
    assert math.isnan(found[2])


def test_fig10_has_a_place_for_each_bound(tmp_path: Path) -> None:
    figure = fig10.draw(recorded(swept(tmp_path)))
    above, below = figure.axes
    assert [label.get_text() for label in below.get_xticklabels()] == [
        "n/2\n= 15",
        "n\n= 30",
        "none",
    ]
    assert list(line(above, "mlfabric_a, median").get_ydata()) == [410.0, 450.0, 510.0]
    assert above.get_title(loc="left") == "resnet_digits (indicative, n = 3)"


def test_fig10_shape_grows_as_the_square_of_the_mean_delay(tmp_path: Path) -> None:
    rows = swept(tmp_path)
    for row, delay in zip(rows, [10.0] * 3 + [20.0] * 3 + [30.0] * 3, strict=True):
        row["mean_delay"] = delay
    numbers = recorded(rows)
    shape = {"15": 410.0, "30": 4 * 410.0, "none": 9 * 410.0}
    assert fig10.summarize(numbers)["shape_of_bound"] == shape
    drawn = line(fig10.draw(numbers).axes[0], fig10.SHAPE)
    assert list(drawn.get_ydata()) == list(shape.values())


def test_fig10_numbers_count_misses_and_leave_dropped_updates_out(tmp_path: Path) -> None:
    rows = swept(tmp_path)
    rows[0]["time_to_target_s"] = INF
    cells = fig10.summarize(recorded(rows))["cells"]["mlfabric_a"]
    assert list(cells) == ["15", "30", "none"]
    assert (cells["15"]["missed"], cells["15"]["n"], cells["15"]["iterations"]) == (1, 3, 420.0)
    assert cells["15"]["ci95"] == [410.0, None]
    assert cells["15"]["delay_p5_p50_p95"][2] <= 15  # a dropped one had a delay of 10,000
    texts = [text.get_text() for text in fig10.draw(recorded(rows)).axes[0].texts]
    assert texts == ["1 of 3\nmissed"]


def test_fig10_without_a_target_shows_delays_alone(tmp_path: Path) -> None:
    rows = [row | {"time_to_target_s": NAN} for row in swept(tmp_path, seeds=1)]
    figure = fig10.draw(recorded(rows))
    figure.canvas.draw()
    assert figure.axes[0].get_title(loc="left").endswith("n = 1, no target: no result)")
    assert fig10.SHAPE not in [line.get_label() for line in figure.axes[0].lines]
    assert fig10.summarize(recorded(rows))["shape_of_bound"] == {}


def test_bounds_of_physics() -> None:
    """C = 0.25 s, S/B = 0.1 s: of ten workers 40/s, 10/s, and 10 / (0.25 + 2 · 0.9 · 0.1)."""
    bounds, ten = Bounds(0.25, 1e9, 1e8), np.array([10.0])
    assert bounds.compute(ten) == pytest.approx(40.0)
    assert bounds.server_link(ten) == pytest.approx(10.0)
    assert bounds.ring(ten) == pytest.approx(10 / 0.43)
    assert bounds.ring(np.array([1.0])) == pytest.approx(4.0)  # alone, nothing is sent


def scaled(folder: Path, update_bytes: float | None = 1.25e8) -> list[dict[str, Any]]:
    """Ten and a hundred workers, three seeds; the ring has no delay."""
    rows = [
        run_row(variant, seed, workers=n, updates_applied=100.0 * rate * (1 + 0.1 * seed))
        | {"mean_delay": 0.0 if variant == RING else 0.9 * n}
        for variant, rates in ((RING, (20.0, 200.0)), (ASYNC, (8.0, 8.0)))
        for n, rate in zip((10, 100), rates, strict=True)
        for seed in range(3)
    ]
    return [write_config(folder, row, update_bytes) for row in rows]


def test_scale_draws_throughput_beside_the_bounds(tmp_path: Path) -> None:
    above, below = scale.draw(recorded(scaled(tmp_path))).axes
    assert list(line(above, RING).get_ydata()) == pytest.approx([22.0, 220.0])
    assert list(line(below, ASYNC).get_ydata()) == pytest.approx([9.0, 90.0])
    assert list(line(below, RING).get_ydata()) == [0.0, 0.0]
    assert set(line(above, scale.BOUNDS["server_link"][0]).get_ydata()) == {10.0}
    assert [label.get_text() for label in below.get_xticklabels()] == ["10", "100"]
    assert above.get_xscale() == above.get_yscale() == "log"


def test_scale_numbers(tmp_path: Path) -> None:
    summary = scale.summarize(recorded(scaled(tmp_path)))
    ten = summary["cells"][RING]["10"]
    assert (ten["updates_per_s"], ten["updates_per_s_ci95"], ten["n"]) == (22.0, [20.0, 24.0], 3)
    bounds = summary["bounds_updates_per_s"]
    assert bounds["compute"] == {"10": 40.0, "100": 400.0}
    assert bounds["ring"]["100"] == pytest.approx(100 / (0.25 + 2 * 0.99 * 0.1), abs=1e-6)


def test_scale_needs_the_size_of_an_update(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match=r"cluster\.update_bytes=None: scale needs"):
        scale.draw(recorded(scaled(tmp_path, update_bytes=None)))


def halved(folder: Path, with_: list[int], without: list[int]) -> list[dict[str, Any]]:
    return [
        recorded_run(folder, ASYNC, count, seed=seed, network=network)
        for network, counts in (("none", without), ("halved", with_))
        for seed, count in enumerate(counts)
    ]


@pytest.mark.parametrize(
    ("counts", "ratio", "holds"),
    [
        ([130, 140, 130, 140, 150], 1.4, True),  # the interval reaches from 1.3 to 1.5
        ([110, 120, 110, 120, 130], 1.2, False),
        ([150, 160, 150, 160, 170], 1.6, False),
    ],
)
def test_halving_holds_where_the_interval_has_the_papers_ratio(
    tmp_path: Path, counts: list[int], ratio: float, holds: bool
) -> None:
    numbers = recorded(halved(tmp_path, counts, [100] * 5))
    (claim,) = claim_halving.findings(claim_halving.summarize(numbers))
    assert (claim.ours, claim.holds, claim.n) == (ratio, holds, 5)
    assert (claim.paper, claim.indicative) == (1.35, False)
    figure = claim_halving.draw(numbers)
    figure.canvas.draw()
    lines = [list(line.get_xdata()) for line in figure.axes[0].lines]
    assert [1.35, 1.35] in lines
    assert [ratio] in lines


@pytest.mark.parametrize(
    ("counts", "holds", "reason"),
    [
        ([130, 140, 130, 140, 150], True, None),
        ([150, 160, 150, 160, 170], False, "the interval lies above the paper's ratio"),
        ([110, 120, 110, 120, 130], False, "the interval lies below the paper's ratio"),
        ([150, 160, 150, 160, INF], False, "the interval lies above the paper's ratio"),
        ([130, 140, 130, 140], None, "4 pairs of runs: fewer than 5"),
        ([130, 140, 130, 140, INF], None, "the interval has no upper end"),
        ([INF] * 5, None, "no interval"),
        ([90, 120, 130, 140, 150], None, "the interval contains 1"),
    ],
)
def test_halving_holds_only_where_the_interval_says_something(
    tmp_path: Path, counts: list[float], holds: bool | None, reason: str | None
) -> None:
    rows = halved(tmp_path, [100 if count == INF else int(count) for count in counts], [100] * 5)
    for row, count in zip(rows[5:], counts, strict=True):
        row["time_to_target_s"] = INF if count == INF else row["time_to_target_s"]
    (claim,) = claim_halving.findings(claim_halving.summarize(recorded(rows)))
    assert claim.holds is holds
    assert claim.reason == reason or (claim.reason or "").startswith(reason or "")


def test_halving_counts_misses(tmp_path: Path) -> None:
    """A halved run that misses is an infinite ratio: the interval has no upper end."""
    rows = halved(tmp_path, [120, 130, 140], [100] * 3)
    rows[-1]["time_to_target_s"] = INF
    numbers = recorded(rows)
    cell = claim_halving.summarize(numbers)["cells"]["resnet_digits/async_ps"]
    assert (cell["ratio"], cell["ci95"], cell["n"]) == (1.3, [1.2, None], 3)
    assert cell["missed"] == {"none": 0, "halved": 1}
    assert cell["iterations"] == {"none": 100.0, "halved": 130.0}
    (label,) = claim_halving.draw(numbers).axes[0].get_yticklabels()
    assert label.get_text().endswith("(indicative, n = 3)\n1 with a miss")
    (claim,) = claim_halving.findings(claim_halving.summarize(numbers))
    assert json.loads(json.dumps(claim.entry("claim_halving"), allow_nan=False))["missed"] == 1


def test_halving_without_targets_claims_nothing(tmp_path: Path) -> None:
    rows = [row | {"time_to_target_s": NAN} for row in halved(tmp_path, [120], [100])]
    numbers = recorded(rows)
    assert claim_halving.findings(claim_halving.summarize(numbers)) == []
    claim_halving.draw(numbers).canvas.draw()
