"""The figures: what they show, and that they can be drawn from what a store may hold."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from analysis import style
from analysis.catalog import FIGURES
from analysis.draw import main
from analysis.figures import fig7, fig8
from analysis.load import Recorded, load_runs, select_planned
from analysis.plan import read_plan
from analysis.variants import LOOKS, look_of
from experiments.overrides import choices
from tests.figures.made_up import LEVELS, POLICIES, MadeUpRun, Store, target_of


def recorded(store: Store, planned: list[MadeUpRun], left_out: int = 0) -> Recorded:
    for run in planned[left_out:]:
        store.record(run)
    plan = read_plan(store.plan(store.folder / "plan.json", planned, ("fig7",)))
    cells = plan.cells("fig7")
    runs = load_runs(store.uri, "mlfabric", set(cells["fingerprint"]))
    return select_planned(runs, cells)


def one_panel(seeds: int, **changes: object) -> list[MadeUpRun]:
    return [MadeUpRun(policy=p, seed=s, **changes) for p in POLICIES for s in range(seeds)]  # type: ignore[arg-type]


def test_fig7_has_a_panel_for_each_workload_and_cluster(
    store: Store, made_up_runs: list[MadeUpRun]
) -> None:
    figure = fig7.draw(recorded(store, made_up_runs))
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == [
        f"{workload} on {cluster} (indicative, n = 3)"
        for workload in LEVELS
        for cluster in ("laptop", "laptop_contended")
    ]
    assert figure.get_figwidth() == style.PAGE_IN


def test_fig7_draws_each_policy_in_its_color_and_the_target(store: Store) -> None:
    figure = fig7.draw(recorded(store, one_panel(seeds=2)))
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    for policy in POLICIES:
        assert lines[policy].get_color() == LOOKS[policy].color
    assert np.unique(lines["target"].get_ydata()) == [0.69]
    assert figure.axes[0].get_xlabel() == "time (s)"
    assert [text.get_text() for text in figure.legends[0].texts] == [*POLICIES, "target"]


def test_fig7_draws_the_median_run(store: Store) -> None:
    """Of three runs: at every time the middle one, held from one snapshot to the next."""
    runs = one_panel(seeds=3)
    figure = fig7.draw(recorded(store, runs))
    line = next(line for line in figure.axes[0].lines if line.get_label() == "async_ps")
    values = [run.metrics()["heldout_loss"] for run in runs if run.policy == "async_ps"]
    middle = np.sort(values, axis=0)[1]
    drawn = dict(zip(np.round(line.get_xdata(), 3), line.get_ydata(), strict=True))
    assert drawn[6.0] == pytest.approx(middle[3])
    assert drawn[8.0] == pytest.approx(middle[4])
    assert not [time for time in drawn if 6.0 < time < 8.0]
    assert line.get_drawstyle() == "steps-post"


def test_fig7_marks_the_median_time_to_target(store: Store) -> None:
    runs = one_panel(seeds=3)
    figure = fig7.draw(recorded(store, runs))
    marks = {
        line.get_color(): line.get_xdata()[0]
        for line in figure.axes[0].lines
        if line.get_marker() == LOOKS["mlfabric_a"].marker
    }
    times = sorted(r.summary()["time_to_target_s"] for r in runs if r.policy == "mlfabric_a")
    assert marks == {LOOKS["mlfabric_a"].color: times[1]}


def test_fig7_shows_an_interval_that_ends_in_a_miss_up_to_the_edge(store: Store) -> None:
    runs = one_panel(seeds=3)
    ours = [run for run in runs if run.policy == "mlfabric_a"]
    ours[0].misses = True
    panel = fig7.draw(recorded(store, runs)).axes[0]
    (drawn,) = [
        line
        for line in panel.lines
        if line.get_color() == LOOKS["mlfabric_a"].color and line.get_alpha() == 0.5
    ]
    earliest = min(run.summary()["time_to_target_s"] for run in ours[1:])
    assert list(drawn.get_xdata()) == [earliest, panel.get_xlim()[1]]


def test_fig7_hides_no_mark_behind_another(store: Store) -> None:
    panel = fig7.draw(recorded(store, one_panel(seeds=3))).axes[0]
    marks = [line for line in panel.lines if line.get_marker() != "None"]
    assert len(marks) == 3
    for below, above in itertools.pairwise(marks):  # half a point is left at each side
        assert below.get_markersize() > above.get_markersize() + above.get_markeredgewidth() + 1


def test_fig7_says_who_missed_the_target(store: Store) -> None:
    runs = one_panel(seeds=2)
    runs[2].misses = True
    figure = fig7.draw(recorded(store, runs))
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == [f"missed the target:\n{runs[2].policy} 1 of 2"]


def test_fig7_is_no_longer_indicative_with_five_runs(store: Store) -> None:
    figure = fig7.draw(recorded(store, one_panel(seeds=5)))
    assert figure.axes[0].get_title(loc="left") == "resnet_mnist5k on laptop (n = 5)"


def test_fig7_without_a_target_draws_none(store: Store) -> None:
    numbers = recorded(store, one_panel(seeds=2, target=None))
    figure = fig7.draw(numbers)
    assert "target" not in [line.get_label() for line in figure.axes[0].lines]
    cell = fig7.summarize(numbers)["cells"]["resnet_mnist5k/laptop"]
    assert cell["policies"]["async_ps"]["target"] is None
    assert cell["speedups"]["async_ps"] == {"median": None, "ci95": None, "n": 0, "missed": 0}


def test_fig7_numbers_count_misses_and_lost_runs(store: Store) -> None:
    runs = one_panel(seeds=4)
    runs[1].misses = True  # of mlfabric_a, seed 1; its seed 0 was never run
    cell = fig7.summarize(recorded(store, runs, left_out=1))["cells"]["resnet_mnist5k/laptop"]
    ours = cell["policies"]["mlfabric_a"]
    assert (ours["n"], ours["missed"], ours["lost"]) == (3, 1, 1)
    assert (cell["policies"]["async_ps"]["n"], cell["policies"]["async_ps"]["lost"]) == (4, 0)
    speedup = cell["speedups"]["ring_allreduce"]
    assert (speedup["n"], speedup["missed"]) == (3, 1)
    times = {(run.policy, run.seed): run.summary()["time_to_target_s"] for run in runs}
    ratios = [times["ring_allreduce", seed] / times["mlfabric_a", seed] for seed in (2, 3)]
    assert speedup["median"] == pytest.approx(min(ratios))  # the third ratio is 0


def test_fig8_counts_messages_in_each_class(store: Store) -> None:
    runs = one_panel(seeds=1, slow_messages=3, fast_messages=57)
    numbers = recorded(store, runs)
    classes = fig8.summarize(numbers)["cells"]["resnet_mnist5k/laptop"]["async_ps"]
    assert classes["0.1"]["messages"] == 3
    assert classes["1"]["messages"] == 57
    assert classes["0.1"]["time_share"] == pytest.approx(2 / 40)
    assert classes["0.1"]["relative"] == pytest.approx((3 / 60) / (2 / 40))
    figure = fig8.draw(numbers)
    assert [label.get_text() for label in figure.axes[1].get_xticklabels()] == ["2.5", "25"]
    heights = sorted(round(bar.get_height()) for bar in figure.axes[0].patches)
    assert heights == [3, 3, 3, 57, 57, 57]


def test_fig8_counts_none_in_a_class_that_a_run_never_met(store: Store) -> None:
    runs = one_panel(seeds=1)
    runs.append(MadeUpRun(policy="async_ps", seed=1, changes=[], slow_messages=0))
    classes = fig8.summarize(recorded(store, runs))["cells"]["resnet_mnist5k/laptop"]["async_ps"]
    assert classes["0.1"]["messages"] == 2  # median of 4 and 0
    assert (classes["0.1"]["n"], classes["0.1"]["ci95"]) == (2, [0.0, 4.0])
    assert classes["0.1"]["relative"] == pytest.approx((4 / 84) / (2 / 40))


def test_fig8_has_a_column_for_each_panel(store: Store, made_up_runs: list[MadeUpRun]) -> None:
    figure = fig8.draw(recorded(store, made_up_runs))
    assert len(figure.axes) == 8
    assert figure.axes[5].get_xlabel() == "slowest link (Mbit/s)"


def test_policies_keep_their_look_whoever_else_is_drawn() -> None:
    assert style.in_order({"async_ps", "mlfabric_a"}) == ["mlfabric_a", "async_ps"]
    assert style.in_order({"mine", "async_ps"}) == ["async_ps", "mine"]
    looks = {(look.color, look.marker, look.dashes) for look in LOOKS.values()}
    assert len(looks) == len(LOOKS)
    assert set(choices("policy")) <= set(LOOKS)


def test_a_variant_without_a_look_has_its_policys_color_and_one_of_others_is_gray() -> None:
    servers = look_of("async_ps, 8 servers beside workers")
    assert servers.color == LOOKS["async_ps"].color
    assert servers.dashes != LOOKS["async_ps"].dashes
    assert look_of("mlfabric_a pipelined, 5 servers").color == LOOKS["mlfabric_a pipelined"].color
    assert look_of("mine") == look_of("mine")
    assert look_of("mine").color == "0.45"


def test_the_command_writes_pictures_and_summary(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = one_panel(seeds=1) + [
        MadeUpRun("plda_sotu", policy=policy, target=target_of("plda_sotu")) for policy in POLICIES
    ]
    runs[0].status = "invalid"
    for run in runs:
        store.record(run)
    folder = tmp_path / "smoke"
    folder.mkdir()
    plan = store.plan(folder / "plan.json", runs, ("fig7", "fig8"))
    assert main(["--plan", str(plan), "--figures", "fig7,fig8"]) == 0
    assert "5 runs, 1 invalid" in capsys.readouterr().out
    for name in ("fig7", "fig8"):
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    summary = json.loads((folder / "summary.json").read_text())
    parts = ["profile", "git", "machine", "tracking_uri", "figures", "claims", "runs"]
    assert list(summary) == parts
    assert summary["runs"]["fig7"]["lost"] == {"invalid": 1}
    assert len(summary["runs"]["fig7"]["drawn"]) == 5
    assert set(summary["figures"]["fig7"]["cells"]) == {"resnet_mnist5k/laptop", "plda_sotu/laptop"}


def test_the_command_fails_where_nothing_can_be_drawn(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = str(store.plan(tmp_path / "plan.json", one_panel(seeds=1), ("fig7",)))
    assert main(["--plan", plan, "--figures", "fig7"]) == 1
    assert "fig7: not drawn, no finished valid run, 3 not run yet\n" in capsys.readouterr().out
    assert main(["--plan", plan, "--figures", "fig99"]) == 1
    known = ", ".join(FIGURES)
    assert capsys.readouterr().err == f"figure 'fig99': unknown; known: {known}\n"
