"""fig1 to fig6: drawn from real answers of the planner, with numbers worked out by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from analysis import style
from analysis.cases import Case, read_cases
from analysis.catalog import FIGURES, FROM_PLANNER
from analysis.draw import main
from analysis.errors import AnalysisError
from analysis.figures import fig1, fig2, fig3, fig4, fig5, fig6
from experiments import planner_answers
from experiments.paths import ROOT
from experiments.plan_runs import known_figures, make_plan
from experiments.planner_answers import planner_figures, write_answers
from experiments.reproduce import Reproduction
from mlfabric.errors import SettingError

Cases = dict[str, Case]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Cases]:
    """Every figure's cases, as the planner answers them now."""
    folder = tmp_path_factory.mktemp("plans")
    write_answers(planner_figures(), folder)
    return {name: read_cases(folder / f"{name}.json") for name in planner_figures()}


def commits(case: Case) -> list[tuple[list[str], float]]:
    return [(group["members"], group["commit"]) for group in case.answer["groups"]]


def texts(axis: object) -> set[str]:
    """Labels of rendered axes."""
    return {text.get_text() for text in axis.texts if text.get_text()}  # type: ignore[attr-defined]


def test_fig1_fair_sharing(answers: dict[str, Cases]) -> None:
    """Of 1 s each: u2 and u3 have half when u1 joins at 1 s, need 3 × 0.5 s more; then u1 alone."""
    fair = answers["fig1"]["fair"]
    assert commits(fair) == [(["u2"], 2.5), (["u3"], 2.5), (["u1"], 3.0)]
    assert fair.delays() == {"u2": 0, "u3": 1, "u1": 3}  # u1 pulled version 9 of 10


def test_fig1_reordered_and_time_shared(answers: dict[str, Cases]) -> None:
    """The server holds u3 back for u1; time-shared, all but the last one end earlier."""
    reordered, shared = (answers["fig1"][name] for name in ("reordered", "time_shared"))
    assert commits(reordered) == [(["u2"], 2.5), (["u1"], 3.0), (["u3"], 3.0)]
    assert commits(shared) == [(["u2"], 1.0), (["u1"], 2.0), (["u3"], 3.0)]
    assert reordered.delays() == shared.delays() == {"u2": 0, "u1": 2, "u3": 2}
    cells = fig1.summarize(answers["fig1"])["cells"]
    means = {name: cell["mean_completion_s"] for name, cell in cells.items()}
    assert means == {"fair": 2.666667, "reordered": 2.833333, "time_shared": 2.0}


def test_fig1_shows_every_update_in_one_color(answers: dict[str, Cases]) -> None:
    figure = fig1.draw(answers["fig1"])
    figure.canvas.draw()
    shades = [
        {patch.get_facecolor() for patch in axis.patches if patch.get_edgecolor()[:3] == (1, 1, 1)}
        for axis in figure.axes
    ]
    assert len(shades[0]) == 3
    assert shades[0] == shades[1] == shades[2]
    assert [axis.get_title(loc="left") for axis in figure.axes] == [
        "fair sharing\nmean completion 2.67 s, longest delay 3",
        "fair sharing, reordered at the server\nmean completion 2.83 s, longest delay 2",
        "time-shared in the network\nmean completion 2.00 s, longest delay 2",
    ]
    assert {"v12: u1\nv13: u3"} <= texts(figure.axes[1])


def test_fig2_gains(answers: dict[str, Cases]) -> None:
    """Eight updates of 1 s and 12.5 MB each.

    None: one a second. Paper: u1; then u2 and u3 summed at w2 (u3 crosses meanwhile), two more
    collected by 2 s, three by 3 s: 1 + 2·2 + 2·3 + 3·4 = 23. Pipelined: a chain of eight hosts,
    seven of which forward chunks of 65,536 bytes: 7 × 5.24 ms late.
    """
    none, paper, pipelined = (answers["fig2"][name] for name in ("none", "paper", "pipelined"))
    assert none.applied() == ([float(n) for n in range(1, 9)], list(range(1, 9)))
    assert paper.applied() == ([1.0, 2.0, 3.0, 4.0], [1, 3, 5, 8])
    assert paper.mean_completion_s == pytest.approx(23 / 8)
    assert pipelined.mean_completion_s == pytest.approx(1 + 7 * 65536 / 12.5e6)
    cells = fig2.summarize(answers["fig2"])["cells"]
    megabytes = {name: cell["bytes_into_server"] / 1e6 for name, cell in cells.items()}
    assert megabytes == {"none": 100.0, "paper": 50.0, "pipelined": 12.5}


def test_fig2_draws_what_was_received(answers: dict[str, Cases]) -> None:
    applied, received = fig2.draw(answers["fig2"]).axes
    assert [line.get_ydata()[-1] for line in applied.lines] == [8, 8, 8]
    assert [line.get_ydata()[-1] for line in received.lines] == pytest.approx([100, 50, 12.5])
    at_two_s = dict(zip(received.lines[0].get_xdata(), received.lines[0].get_ydata(), strict=True))
    assert at_two_s[2.0] == pytest.approx(25)


def test_fig3_keeps_the_distance_within_its_bound(answers: dict[str, Cases]) -> None:
    """Norms of 1 and a bound of 3: what the server applies first has arrived before its fourth."""
    case = answers["fig3"]["bounded"]
    numbers = fig3.summarize(answers["fig3"])
    assert numbers["max_divergence"] == numbers["divergence_bound"] == 3.0
    assert [name for members in numbers["replica_groups"] for name in members] == [
        *["u1", "u2", "u3", "u4", "u5", "u6"]
    ]
    assert all(t["src"] != "s" for g in case.answer["replica"]["groups"] for t in g["transfers"])
    steps = fig3.distance(case)
    assert steps[0] == (0.0, 0.0)
    assert steps[-1][1] == 0.0
    assert [time for time, _ in steps] == sorted({time for time, _ in steps})


def test_fig3_distance_counts_commits_of_both() -> None:
    updates = [{"id": "a", "norm": 2.0}, {"id": "b", "norm": 0.5}]
    groups = [{"members": ["a"], "commit": 1.0}, {"members": ["b"], "commit": 2.0}]
    followed = {"groups": [{"members": ["a"], "commit": 2.0}, {"members": ["b"], "commit": 4.0}]}
    replica = {"host": "r", "divergence_bound": 3.0, "pending_norm": 0.25}
    case = Case({"updates": updates, "replica": replica}, {"groups": groups, "replica": followed})
    assert fig3.distance(case) == [(0.0, 0.25), (1.0, 2.25), (2.0, 0.75), (4.0, 0.25)]


def test_fig3_draws_bound_and_distance(answers: dict[str, Cases]) -> None:
    above, below = fig3.draw(answers["fig3"]).axes
    assert [label.get_text() for label in above.get_yticklabels()][:4] == [
        *["model version", "replica version", "s ingress", "r ingress"]
    ]
    bound, distance = below.lines
    assert set(bound.get_ydata()) == {3.0}
    assert max(distance.get_ydata()) == 3.0


def test_fig4_ends_at_seven(answers: dict[str, Cases]) -> None:
    """10 MB/s for 1 s, 2 MB/s for 4 s, 6 MB/s after: 10 + 8 + 12 = 30 MB at t = 7."""
    assert fig4.summarize(answers["fig4"]) == {
        "t_end_s": {"paper": 7.0, "ours": 7.0},
        "bytes": 30_000_000,
    }


def test_fig4_subtracts_the_reservation_from_both_links(answers: dict[str, Cases]) -> None:
    figure = fig4.draw(answers["fig4"])
    before_w1, after_w1, before_s, after_s = (axis.lines[0] for axis in figure.axes)
    assert before_w1.get_ydata().tolist() == [10, 2, 6, 6]
    assert after_w1.get_ydata().tolist() == [0, 0, 0, 6, 6]
    assert before_s.get_ydata().tolist() == [10, 10]
    assert after_s.get_xdata().tolist() == [0, 1, 5, 7, 9]
    assert after_s.get_ydata().tolist() == [0, 8, 4, 10, 10]
    assert "= 7 s (▲ paper: 7 s)" in figure.get_suptitle()


def test_fig5_the_slow_update_is_dropped(answers: dict[str, Cases]) -> None:
    """12.5 MB at 10 Mbit/s: 10 s; without a bound g1 starts when g2 and g3 have left the link."""
    numbers = fig5.summarize(answers["fig5"])
    assert numbers["alone_s"] == {"paper": 10.0, "ours": 10.0}
    assert numbers["dropped"] == {"paper": ["g1"], "ours": ["g1"]}
    assert commits(answers["fig5"]["unbounded"]) == [(["g2"], 1.0), (["g3"], 2.0), (["g1"], 12.0)]
    means = {name: cell["mean_completion_s"] for name, cell in numbers["cells"].items()}
    assert means == {"alone": 10.0, "unbounded": 5.0, "bounded": 1.5}


def test_fig5_tells_the_drop_and_keeps_one_time_axis(answers: dict[str, Cases]) -> None:
    figure = fig5.draw(answers["fig5"])
    figure.canvas.draw()
    above, below = figure.axes
    assert "g1 (delay 2)" in texts(below)
    assert above.get_xlim() == below.get_xlim()
    assert figure.get_suptitle() == "g1 alone behind 10 Mbit/s: 10 s (paper: 10 s)"


def test_fig6_groups_are_the_papers(answers: dict[str, Cases]) -> None:
    """u1 to u3 of 2 s each until 6; u4 and u5 of 3 s collected by 6, across by 9; u6 by 12."""
    case = answers["fig6"]["groups"]
    found = [["u1", "u2", "u3"], ["u4", "u5"], ["u6"]]
    numbers = fig6.summarize(answers["fig6"])
    assert numbers["groups"] == {"paper": found, "ours": found}
    assert case.applied()[0] == [2.0, 4.0, 6.0, 9.0, 12.0]
    assert case.mean_completion_s == pytest.approx((2 + 4 + 6 + 9 + 9 + 12) / 6)
    (axis,) = fig6.draw(answers["fig6"]).axes
    brackets = [line.get_xdata() for line in axis.lines]
    assert [[round(x) for x in ends] for ends in brackets] == [[0, 6], [6, 9], [9, 12]]


def test_fig6_a_plan_of_sums_alone_has_no_first_group_of_none() -> None:
    summed = [{"members": ["a", "b"], "via": "w"}, {"members": ["c"], "via": None}]
    assert fig6.groups(Case({}, {"groups": summed})) == [["a", "b"], ["c"]]


@pytest.mark.parametrize("name", list(FROM_PLANNER))
def test_each_figure_fits_a_column(name: str, answers: dict[str, Cases]) -> None:
    assert FROM_PLANNER[name].draw(answers[name]).get_figwidth() == style.COLUMN_IN


def test_every_planner_figure_is_configured_and_drawn() -> None:
    assert (
        planner_figures() == list(FROM_PLANNER) == ["fig1", "fig2", "fig3", "fig4", "fig5", "fig6"]
    )
    assert known_figures()[:6] == list(FROM_PLANNER)
    assert {"fig7", "fig8"} <= set(known_figures()) <= set(FIGURES)


def draw_here(command: Sequence[str]) -> int:
    assert command[2] == "analysis.draw"
    return main(command[3:])


def no_run(overrides: Sequence[str]) -> int:
    raise AssertionError(f"a planner figure needs no run: {overrides}")


def test_planner_figures_are_reproduced_without_a_store(tmp_path: Path) -> None:
    plan = make_plan("smoke", ["fig6", "fig4"])
    assert Reproduction(plan, tmp_path, no_run, draw_here).carry_out() == 0
    folder = tmp_path / "smoke"
    for name in ("fig4", "fig6"):
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        cases = json.loads((folder / "plans" / f"{name}.json").read_text())["cases"]
        assert all(set(case) == {"problem", "answer"} for case in cases.values())
    summary = json.loads((folder / "summary.json").read_text())
    assert list(summary["figures"]) == ["fig4", "fig6"]
    assert summary["figures"]["fig4"]["t_end_s"] == {"paper": 7.0, "ours": 7.0}
    written = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {
        *["plan.json", "summary.json", "report.html", "fig4.json", "fig6.json"],
        *["fig4.png", "fig4.pdf", "fig6.png", "fig6.pdf"],
    }


def test_a_planner_figure_that_cannot_be_drawn_fails_the_reproduction(tmp_path: Path) -> None:
    plan = make_plan("smoke", ["fig4"])
    assert Reproduction(plan, tmp_path, no_run, lambda command: 1).carry_out() == 1


def test_the_same_answers_give_the_same_bytes(answers: dict[str, Cases], tmp_path: Path) -> None:
    for place in ("a", "b"):
        style.save(fig6.draw(answers["fig6"]), tmp_path / place)
    for ending in (".png", ".pdf"):
        assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


def test_an_unknown_figure_is_refused_in_one_line() -> None:
    command = [sys.executable, "-m", "experiments.reproduce", "--figures", "fig4,fig0"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    known = ", ".join(known_figures())
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"figure 'fig0': unknown; known: {known}\n"


def test_a_case_that_the_planner_refuses_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "conf" / "plan" / "fig4.yaml").read_text().replace("30_000_000", "-5")
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan" / "fig4.yaml").write_text(text)
    monkeypatch.setattr(planner_answers, "CONF", tmp_path)
    with pytest.raises(SettingError, match=r"^plan fig4: cases\.reservation: updates\[0\]\.bytes:"):
        write_answers(["fig4"], tmp_path / "plans")
    assert not (tmp_path / "plans" / "fig4.json").exists()


def test_missing_answers_are_named(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match=r"no planner answers at .*fig4\.json"):
        read_cases(tmp_path / "fig4.json")
