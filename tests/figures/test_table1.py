"""table1: every cell beside the paper's value, misses told, throughput alone is no result."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from analysis import paper, style
from analysis.draw import main
from analysis.errors import AnalysisError
from analysis.figures import table1
from analysis.variants import PAPER_MODE, RING
from tests.figures.made_up import MadeUpRun, Store
from tests.figures.virtual_runs import recorded, run_row, table_rows


def title(figure: Figure) -> str:
    text: str = figure.legends[0].get_title().get_text()
    return text


def at(figure: Figure, label: str) -> list[float]:
    """Heights of a series over the nine panels, row by row."""
    return [
        float(np.ravel(line.get_ydata())[0])
        for axis in figure.axes
        for line in axis.lines
        if line.get_label() == label
    ]


def test_every_cell_stands_beside_the_papers_value() -> None:
    numbers = recorded(table_rows(seeds=5))
    figure = table1.draw(numbers)
    assert figure.get_figwidth() == style.COLUMN_IN
    assert at(figure, "paper [1907.00434]") == list(paper.SPEEDUP.values())
    cells = table1.summarize(numbers)["cells"]
    assert list(cells) == [f"{cs}/{ns}" for cs, ns in paper.SPEEDUP]
    for label, key in (
        ("paper mode / ring", "paper_mode"),
        ("pipelined / ring", "pipelined"),
        ("pipelined / better baseline", "best_baseline"),
    ):
        expected = [cell[key] for cell in cells.values()]
        assert at(figure, label) == pytest.approx(expected, abs=1e-6)
    assert title(figure) == "resnet_digits: speedup by time to target (n = 5)"


def test_nothing_is_cut_off() -> None:
    style.apply()
    figure = table1.draw(recorded(table_rows(seeds=5)))
    figure.set_dpi(style.PNG_DPI)
    figure.canvas.draw()
    drawn, page = figure.get_tightbbox(), figure.bbox_inches
    assert page.x0 <= drawn.x0 < drawn.x1 <= page.x1


def test_fitted_cells_are_shaded() -> None:
    figure = table1.draw(recorded(table_rows(seeds=2)))
    shaded = [to_hex(axis.get_facecolor()) != "#ffffff" for axis in figure.axes]
    assert shaded == [paper.fitted(*place) for place in paper.SPEEDUP]
    assert "paper's values are not reproduced but compared" in figure.get_supxlabel()
    assert "n = 2" in figure.get_supxlabel()


def test_summary_has_the_agreed_keys() -> None:
    summary = table1.summarize(recorded(table_rows(seeds=5)))
    assert summary["baseline"] == "ring_allreduce"
    assert summary["measure"] == "time_to_target"
    cell = summary["cells"]["CS2/NS1"]
    assert (cell["paper"], cell["n"], cell["missed"], cell["fitted"]) == (2.96, 5, 0, False)
    assert cell["ci95"][0] <= cell["paper_mode"] <= cell["ci95"][1]
    json.dumps(summary, allow_nan=False)


def test_misses_and_medians_off_every_scale_are_told() -> None:
    rows = table_rows(seeds=3)
    for row in rows:
        if row["network"] == "ns1" and row["compute"] == "cs2" and row["policy"] == RING:
            row["time_to_target_s"] = math.inf
        if row["network"] == "ns2" and row["compute"] == "cs1" and row["aggregation"] == "paper":
            row["time_to_target_s"] = math.inf
    figure = table1.draw(recorded(rows))
    texts = [{text.get_text() for text in axis.texts} for axis in figure.axes]
    assert {"missed:\nring 3/3", "∞"} <= texts[3]
    assert {"missed:\npaper mode 3/3", "0"} <= texts[1]
    assert not any("missed" in text for text in texts[0])
    assert "indicative, n = 3" in title(figure)


def test_without_targets_throughput_is_drawn_and_called_no_result() -> None:
    rows = [row | {"time_to_target_s": math.nan, "target": math.nan} for row in table_rows(1)]
    numbers = recorded(rows)
    figure = table1.draw(numbers)
    assert title(figure).endswith("n = 1\nno result: runs without a target")
    summary = table1.summarize(numbers)
    assert summary["measure"] == "throughput"
    first = summary["cells"]["CS1/NS1"]
    assert first["paper_mode"] is None
    assert at(figure, "paper mode / ring")[0] == pytest.approx(
        first["throughput"]["paper_mode"]["median"], abs=1e-6
    )
    assert table1.findings(summary) == []


def test_a_part_of_the_table_is_drawn_and_lost_runs_are_counted() -> None:
    """Two cells; no pipelined run in one of them; one run of the other was lost."""
    rows = [row for row in table_rows(2) if row["network"] == "ns1" and row["compute"] != "cs3"]
    rows = [row for row in rows if row["compute"] == "cs1" or row["aggregation"] != "pipelined"]
    gone = run_row(PAPER_MODE, seed=2) | {"variant": PAPER_MODE, "status": "failed"}
    numbers = recorded(rows, [gone])
    figure = table1.draw(numbers)
    figure.canvas.draw()
    summary = table1.summarize(numbers)
    assert list(summary["cells"]) == ["CS1/NS1", "CS2/NS1"]
    assert [cell["lost"] for cell in summary["cells"].values()] == [1, 0]
    assert summary["cells"]["CS2/NS1"]["pipelined"] is None
    assert summary["ordering_holds"]["all"] is None


def test_two_workloads_are_two_tables() -> None:
    rows = table_rows(1) + [row | {"workload": "plda_sotu"} for row in table_rows(1)]
    with pytest.raises(AnalysisError, match="workload plda_sotu, resnet_digits: one table"):
        table1.draw(recorded(rows))


def test_the_command_draws_a_table_for_each_workload(store: Store, tmp_path: Path) -> None:
    """From recorded runs of ns1 and cs2, in which the ring reaches the target later."""
    variants = [("mlfabric_a", "paper"), ("mlfabric_a", "pipelined"), ("ring_allreduce", None)]
    runs = [MadeUpRun(policy=policy, aggregation=how) for policy, how in variants]
    for run in runs:
        store.record(run)
    plan = store.plan(tmp_path / "plan.json", runs, ("table1", "table1_plda"))
    assert main(["--plan", str(plan)]) == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert list(summary["figures"]) == ["table1", "table1_plda"]
    cell = summary["figures"]["table1"]["cells"]["CS2/NS1"]
    times = [run.summary()["time_to_target_s"] for run in runs]
    assert cell["paper_mode"] == pytest.approx(times[2] / times[0], abs=1e-6)
    assert cell["pipelined"] == pytest.approx(times[2] / times[1], abs=1e-6)
    assert {claim["figure"] for claim in summary["claims"]} == {"table1", "table1_plda"}
    assert (tmp_path / "figures" / "table1_plda.png").read_bytes().startswith(b"\x89PNG")
