"""The Gantt chart of a plan: what it shows of a hand-made answer, readable whatever its size."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

from mlfabric.plan import gantt
from mlfabric.plan.lanes import Lane, commits, lanes, replica_commits

RATE = 100.0


def links(*hosts: str) -> dict[str, Any]:
    return {host: {way: [[0.0, RATE]] for way in ("egress", "ingress")} for host in hosts}


def sent(what: str | list[str], src: str, dst: str, *pieces: list[float]) -> dict[str, Any]:
    return {"what": what, "src": src, "dst": dst, "pieces": list(pieces)}


def group(members: list[str], commit: float, via: str | None = None) -> dict[str, Any]:
    return {"members": members, "via": via, "version_before": 0, "commit": commit}


def answer(groups: list[Any], transfers: list[Any], **more: Any) -> dict[str, Any]:
    order = [name for group in groups for name in group["members"]]
    ends = [group["commit"] for group in groups for _ in group["members"]]
    mean = sum(ends) / len(ends) if ends else None
    whole = {"order": order, "dropped": [], "groups": groups, "transfers": transfers}
    return {**whole, "mean_completion": mean, "replica": None, **more}


PROBLEM = {"version": 7, "server": "s", "links": links("w1", "w2", "w3", "s", "a")}
SUMMED = answer(
    [group(["u1"], 1.0), group(["u2", "u3"], 3.0, "a")],
    [
        sent("u1", "w1", "s", [0.0, 1.0, RATE]),
        sent("u2", "w2", "a", [0.0, 2.0, RATE / 2]),
        sent("u3", "w3", "a", [0.0, 2.0, RATE / 2]),
        sent(["u2", "u3"], "a", "s", [2.0, 3.0, RATE]),
    ],
)


def one_by_one(count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A problem and a plan in which so many workers send for one second each."""
    names = [str(number) for number in range(count)]
    problem = {"server": "s", "links": links("s", *(f"w{n}" for n in names))}
    transfers = [sent(f"u{n}", f"w{n}", "s", [float(n), float(n) + 1, RATE]) for n in names]
    return problem, answer([group([f"u{n}"], float(n) + 1) for n in names], transfers)


def drawn(
    problem: dict[str, Any], plan: dict[str, Any], size: tuple[float, float] = (7, 3), **how: Any
) -> Any:
    """Axes that were rendered: labels have been chosen."""
    figure = Figure(figsize=size, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    gantt.draw(axes, problem, plan, **how)
    canvas.draw()
    return axes


def rows(axes: Any) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def labels(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts if text.get_text()]


def bars(lane: Lane) -> list[tuple[tuple[str, ...], list[float], list[float], list[float]]]:
    return [(b.updates, b.edges_s.tolist(), b.bottom.tolist(), b.share.tolist()) for b in lane.bars]


def test_lanes_are_the_links_in_use_the_servers_first() -> None:
    names = [tuple(lane.link) for lane in lanes(PROBLEM, SUMMED)]
    assert names == [
        ("s", "ingress"),
        ("w1", "egress"),
        ("w2", "egress"),
        ("w3", "egress"),
        ("a", "ingress"),
        ("a", "egress"),
    ]


def test_bars_stack_their_shares_of_a_link() -> None:
    server, *_, collecting, _ = lanes(PROBLEM, SUMMED)
    assert bars(server) == [
        (("u1",), [0.0, 1.0], [0.0], [1.0]),
        (("u2", "u3"), [2.0, 3.0], [0.0], [1.0]),
    ]
    assert bars(collecting) == [
        (("u2",), [0.0, 2.0], [0.0], [0.5]),
        (("u3",), [0.0, 2.0], [0.5], [0.5]),
    ]


def test_a_share_follows_the_rate_of_its_link() -> None:
    """At 50 bytes/s over a link that falls from 100 to 50 at 1 s: half of it, then all."""
    problem = {"server": "s", "links": links("w1", "s")}
    problem["links"]["w1"]["egress"] = [[0.0, 100.0], [1.0, 50.0]]
    plan = answer([group(["u1"], 2.0)], [sent("u1", "w1", "s", [0.0, 2.0, 50.0])])
    server, worker = lanes(problem, plan)
    assert bars(server) == [(("u1",), [0.0, 2.0], [0.0], [0.5])]
    assert bars(worker) == [(("u1",), [0.0, 1.0, 2.0], [0.0, 0.0], [0.5, 1.0])]


def test_a_rest_between_two_pieces_is_left_open() -> None:
    transfers = [sent("u1", "w1", "s", [0.0, 1.0, RATE], [3.0, 4.0, RATE])]
    bar = lanes(PROBLEM, answer([group(["u1"], 4.0)], transfers))[0].bars[0]
    assert bar.edges_s.tolist() == [0.0, 1.0, 3.0, 4.0]
    np.testing.assert_array_equal(bar.share, [1.0, np.nan, 1.0])


def test_racks_uplinks_are_lanes() -> None:
    """w1 and w2 of rack r each send at 50 through its uplink of 100."""
    up = {"hosts": ["w1", "w2"], "up": [[0.0, 100.0]], "down": [[0.0, 100.0]]}
    problem = {**PROBLEM, "racks": {"r": up}}
    transfers = [sent(f"u{n}", f"w{n}", "s", [0.0, 1.0, 50.0]) for n in (1, 2)]
    shown = lanes(problem, answer([group(["u1"], 1.0), group(["u2"], 1.0)], transfers))
    assert tuple(shown[-1].link) == ("r", "up")
    assert [bar.bottom.tolist() for bar in shown[-1].bars] == [[0.0], [0.5]]


def test_commits_tell_versions_and_what_waited() -> None:
    held = answer(
        [group(["u1"], 2.0), group(["u2"], 2.0)],
        [sent("u1", "w1", "s", [0.0, 2.0, 50.0]), sent("u2", "w2", "s", [0.0, 1.0, 50.0])],
    )
    made = commits(held, 7)
    assert [(c.updates, c.arrived_s, c.at_s, c.version) for c in made] == [
        (("u1",), 2.0, 2.0, 8),
        (("u2",), 1.0, 2.0, 9),
    ]


def test_a_sum_arrives_when_it_has_crossed() -> None:
    assert [c.arrived_s for c in commits(SUMMED, 7)] == [1.0, 3.0]


def test_the_chart_names_lanes_transfers_and_versions() -> None:
    axes = drawn(PROBLEM, SUMMED)
    assert rows(axes) == [
        "model version",
        *["s ingress", "w1 egress", "w2 egress", "w3 egress", "a ingress", "a egress"],
    ]
    assert labels(axes).count("u2+u3") == 2  # out of the aggregator, into the server
    assert {"v8: u1", "v10: u2+u3"} <= set(labels(axes))
    assert axes.get_xlabel() == "time (s)"


def test_a_version_may_be_written_with_a_fraction_of_zero() -> None:
    assert "v8: u1" in labels(drawn({**PROBLEM, "version": 7.0}, SUMMED))


def test_a_group_has_one_color_and_its_neighbor_another() -> None:
    colors = gantt.group_colors(SUMMED)
    assert colors["u2"] == colors["u3"] != colors["u1"]
    _, plan = one_by_one(60)
    cycle = list(gantt.group_colors(plan).values())
    assert all(here != after for here, after in pairwise(cycle))


def test_labels_that_do_not_fit_are_shortened_then_left_out() -> None:
    names = [f"update{n}" for n in range(6)]
    plan = answer([group(names, 1.0)], [sent(names, "a", "s", [0.0, 1.0, RATE])])
    wide, narrow, thin = (drawn(PROBLEM, plan, (width, 2)) for width in (7, 2.5, 1.35))
    assert "+".join(names) in labels(wide)
    assert "update0+…+update5" in labels(narrow)
    assert "Σ6" in labels(thin)
    _, sixty = one_by_one(60)
    crowded = drawn(one_by_one(60)[0], sixty, (1.5, 8))
    assert not labels(crowded)


def test_labels_stay_within_their_bars() -> None:
    problem, plan = one_by_one(12)
    axes = drawn(problem, plan, (3.4, 3))
    renderer = axes.figure.canvas.get_renderer()
    for text in axes.texts:
        if text.get_text().startswith("u"):
            box = text.get_window_extent(renderer).transformed(axes.transData.inverted())
            start = int(text.get_text()[1:])
            assert start <= box.x0 < box.x1 <= start + 1


def test_commits_of_one_instant_share_a_label() -> None:
    transfers = [sent(f"u{n}", f"w{n}", "s", [0.0, 2.0, 50.0]) for n in (1, 2)]
    axes = drawn(PROBLEM, answer([group(["u1"], 2.0), group(["u2"], 2.0)], transfers))
    assert "v8: u1\nv9: u2" in labels(axes)


def test_drops_are_listed_with_their_delays() -> None:
    dropped = [{"id": f"u{n}", "delay": 20 + n} for n in range(40)]
    axes = drawn(PROBLEM, {**SUMMED, "dropped": dropped[:2]})
    assert rows(axes)[-1] == "dropped"
    assert labels(axes)[-1] == "u0 (delay 20), u1 (delay 21)"
    shown = labels(drawn(PROBLEM, {**SUMMED, "dropped": dropped}))[-1]
    assert shown.startswith("u0 (delay 20), ")
    named = shown.count("delay")
    assert shown.endswith(f" and {40 - named} more")


def test_a_plan_without_any_transfer_is_drawn() -> None:
    axes = drawn(PROBLEM, answer([], [], dropped=[{"id": "u1", "delay": 9}]))
    assert rows(axes) == ["model version", "s ingress", "dropped"]


def test_a_replica_has_its_own_rows() -> None:
    copied = {**group(["u1", "u2", "u3"], 5.0), "transfers": []}
    copied["transfers"] = [
        sent("u1", "w1", "r", [1.0, 2.0, RATE]),
        sent(["u2", "u3"], "a", "r", [3.0, 4.0, RATE]),
    ]
    plan = {**SUMMED, "replica": {"groups": [copied], "max_divergence": 3.0}}
    problem = {**PROBLEM, "replica": {"host": "r"}, "links": {**PROBLEM["links"], **links("r")}}
    made = [(c.updates, c.arrived_s, c.at_s, c.version) for c in replica_commits(plan, 7)]
    assert made == [(("u1", "u2", "u3"), 4.0, 5.0, 10)]
    axes = drawn(problem, plan)
    assert rows(axes)[:4] == ["model version", "replica version", "s ingress", "r ingress"]
    assert "v10: u1+u2+u3" in labels(axes)


def test_only_the_links_asked_for_are_drawn_in_the_colors_given() -> None:
    colors = {"u1": "#111111", "u2": "#222222", "u3": "#333333"}
    axes = drawn(PROBLEM, SUMMED, links=[("a", "ingress")], colors=colors, until_s=9.0)
    assert rows(axes) == ["model version", "a ingress"]
    faces = [patch.get_facecolor() for patch in axes.patches if isinstance(patch, StepPatch)]
    assert [round(255 * face[0]) for face in faces] == [0x22, 0x33]
    assert axes.get_xlim()[1] >= 9.0


def test_of_very_many_links_the_busiest_are_drawn() -> None:
    problem, plan = one_by_one(gantt.MOST_LANES + 20)
    axes = drawn(problem, plan, (7, 30))
    assert len(rows(axes)) == gantt.MOST_LANES + 2  # with the versions, and what is left out
    assert rows(axes)[1] == "s ingress"
    assert labels(axes)[-1] == "21 links of less use are not shown"


def test_names_are_shown_as_they_are_written() -> None:
    """Neither formulas nor line breaks nor long names spoil the chart."""
    odd = ["$x$", "a\nb", "n" * 200]
    transfers = [
        sent(name, "w1", "s", [10.0 * n, 10.0 * n + 10, RATE]) for n, name in enumerate(odd)
    ]
    plan = answer([group([name], 10.0 * n + 10) for n, name in enumerate(odd)], transfers)
    assert {"$x$", "a?b", "nnnnnnn…nnnnnn"} <= set(labels(drawn(PROBLEM, plan)))


@pytest.mark.parametrize("ending", list(gantt.FORMATS))
def test_the_same_plan_gives_the_same_bytes(tmp_path: Path, ending: str) -> None:
    paths = [tmp_path / f"{name}{ending}" for name in "ab"]
    open_before = plt.get_fignums()
    for path in paths:
        gantt.save(PROBLEM, SUMMED, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert b"CreationDate" not in paths[0].read_bytes()
    assert plt.get_fignums() == open_before


def test_the_file_grows_with_the_lanes(tmp_path: Path) -> None:
    few, many = tmp_path / "few.png", tmp_path / "many.png"
    gantt.save(PROBLEM, SUMMED, few)
    gantt.save(*one_by_one(60), many)
    few_rows, many_rows = (plt.imread(path).shape[0] for path in (few, many))
    assert many_rows > 3 * few_rows
