"""The planner on its own: answers to small inputs, worked out by hand."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from mlfabric.plan import answer
from mlfabric.plan.__main__ import main
from mlfabric.plan.problem import read
from mlfabric.plan.solving import batch_of

MB = 1_000_000


def links(**mb_per_s: float) -> dict[str, Any]:
    """Hosts with the same rate in both directions."""
    return {
        host: {"egress": [[0, rate * MB]], "ingress": [[0, rate * MB]]}
        for host, rate in mb_per_s.items()
    }


def updates(**megabytes: int) -> list[dict[str, Any]]:
    """Updates u1, u2, … at w1, w2, …, ready at once."""
    return [
        {"id": id, "worker": f"w{id[1:]}", "bytes": size * MB, "version": 0, "ready": 0}
        for id, size in megabytes.items()
    ]


def fig4() -> dict[str, Any]:
    """10 MB/s for 1 s, 2 MB/s for 4 s, 6 MB/s after that; the server's link is faster."""
    hosts = links(s=100, w1=10)
    hosts["w1"]["egress"] = [[0.0, 10e6], [1.0, 2e6], [5.0, 6e6]]
    return {"server": "s", "links": hosts, "updates": updates(u1=30)}


def fig6(**more: Any) -> dict[str, Any]:
    """Equal links of 1 MB/s, three updates of 2 MB and three of 3 MB, one idle host."""
    hosts = links(**dict.fromkeys(("s", "idle1", "w1", "w2", "w3", "w4", "w5", "w6"), 1))
    sizes = {"u1": 2, "u2": 2, "u3": 2, "u4": 3, "u5": 3, "u6": 3}
    asked = {"server": "s", "links": hosts, "updates": updates(**sizes), "aggregators": ["idle1"]}
    return {**asked, **more}


def busy_server(batch: list[dict[str, Any]]) -> dict[str, Any]:
    """Equal links of 1 MB/s, but nothing gets into the server for 6 s."""
    hosts = links(s=1, idle1=1, w1=1, w2=1)
    hosts["s"]["ingress"] = [[0, 0], [6, MB]]
    return {"server": "s", "links": hosts, "updates": batch}


def test_thirty_megabytes_end_at_seven() -> None:
    """10 + 8 + 12 MB."""
    assert answer(fig4()) == {
        "order": ["u1"],
        "dropped": [],
        "groups": [{"members": ["u1"], "via": None, "version_before": 0, "commit": 7.0}],
        "transfers": [
            {
                "what": "u1",
                "src": "w1",
                "dst": "s",
                "pieces": [[0.0, 1.0, 10e6], [1.0, 5.0, 2e6], [5.0, 7.0, 6e6]],
            }
        ],
        "completion": {"u1": 7.0},
        "mean_completion": 7.0,
        "replica": None,
    }


def test_a_late_update_is_dropped() -> None:
    """u2 and u3 take 1 s each, u1 10 s: it would come third, with a delay of 2."""
    hosts = links(s=10, w1=1, w2=10, w3=10)
    asked = {"server": "s", "links": hosts, "updates": updates(u1=10, u2=10, u3=10)}
    given = answer({**asked, "delay_bound": 1})
    assert given["dropped"] == [{"id": "u1", "delay": 2}]
    assert given["completion"] == {"u2": 1.0, "u3": 2.0}
    assert given["mean_completion"] == 1.5
    assert answer(asked)["dropped"] == []


def test_nothing_is_kept() -> None:
    late = {**fig4(), "version": 30, "delay_bound": 20}
    given = answer(late, exact=True)
    assert given["dropped"] == [{"id": "u1", "delay": 30}]
    assert given["order"] == given["groups"] == given["transfers"] == []
    assert given["mean_completion"] is None
    assert given["optimal_mean_completion"] is given["optimal_slot"] is None
    assert given["optimal_first_hop"] == given["optimal_completion"] == {}


def test_a_sum_is_written_with_its_members() -> None:
    """u1 to u3 take the server's link until 6 s; u4 and u5 are collected by then and cross once."""
    given = answer(fig6())
    assert [(g["members"], g["via"], g["version_before"]) for g in given["groups"]] == [
        (["u1"], None, 0),
        (["u2"], None, 1),
        (["u3"], None, 2),
        (["u4", "u5"], "idle1", 3),
        (["u6"], None, 5),
    ]
    assert given["completion"] == {"u1": 2, "u2": 4, "u3": 6, "u4": 9, "u5": 9, "u6": 12}
    assert [t for t in given["transfers"] if t["src"] == "idle1"] == [
        {"what": ["u4", "u5"], "src": "idle1", "dst": "s", "pieces": [[6.0, 9.0, 1e6]]}
    ]
    assert given["mean_completion"] == 7.0


def test_without_aggregation_everything_goes_straight() -> None:
    """2, 4, 6, 9, 12, 15 s."""
    given = answer(fig6(aggregation="none"))
    assert given["mean_completion"] == 8.0
    assert {group["via"] for group in given["groups"]} == {None}


def test_ties_keep_the_input_order() -> None:
    asked = {"server": "s", "links": links(s=1, w1=1, w2=1, w3=1)}
    given = answer({**asked, "updates": updates(u3=1, u1=1, u2=1)})
    assert given["completion"] == {"u3": 1.0, "u1": 2.0, "u2": 3.0}
    assert given["order"] == ["u3", "u1", "u2"]


def test_members_of_a_sum_are_listed_in_input_order() -> None:
    """While the server is busy both are collected, the smaller u2 first; they arrive together."""
    asked = busy_server(updates(u1=3, u2=2))
    given = answer({**asked, "aggregators": ["idle1"]})
    assert given["groups"][0]["members"] == ["u2", "u1"]
    assert given["completion"] == {"u1": 9.0, "u2": 9.0}
    assert given["order"] == ["u1", "u2"]


def test_what_is_held_back_is_listed_after_what_it_waits_for() -> None:
    """u1 arrives at 2 s, u2, which must not come second, at 3 s: both are committed then."""
    batch = updates(u1=1, u2=2)
    batch[0]["version"] = 1
    asked = {"server": "s", "links": links(s=1, w1=1, w2=1), "updates": batch}
    given = answer({**asked, "sharing": "fair", "version": 1, "delay_bound": 1})
    assert given["completion"] == {"u2": 3.0, "u1": 3.0}
    assert given["order"] == ["u2", "u1"]
    assert [group["version_before"] for group in given["groups"]] == [1, 2]


def test_an_integer_may_be_written_as_any_number() -> None:
    asked = {**fig6(delay_bound=20, version=30, model_bytes=3 * MB), "chunk_bytes": 1000}
    asked["updates"] = [{**update, "version": 20} for update in asked["updates"]]
    other = json.loads(json.dumps(asked), parse_int=float)
    assert other["delay_bound"] == 20.0
    assert json.dumps(answer(other)) == json.dumps(answer(asked))


def test_a_rack_shares_its_uplink() -> None:
    """Each alone would take 1 s at 2 MB/s; the uplink carries 1 MB/s: 2 s, one after the other."""
    asked = {"server": "s", "links": links(s=4, w1=2, w2=2), "updates": updates(u1=2, u2=2)}
    rates = {"up": [[0, MB]], "down": [[0, 9 * MB]]}
    racks = {"r1": {"hosts": ["w1", "w2"], **rates}}
    assert answer(asked)["completion"] == {"u1": 1.0, "u2": 1.0}
    assert answer({**asked, "racks": racks})["completion"] == {"u1": 2.0, "u2": 4.0}


def test_within_a_rack_nothing_crosses_the_uplink() -> None:
    """u1 crosses at 1 MB/s until 2 s; meanwhile u2 and u3 meet at w4, and their sum takes 2 s."""
    hosts = ["w1", "w2", "w3", "w4"]
    given = answer(
        {
            "server": "s",
            "links": links(s=10, w1=10, w2=10, w3=10, w4=10),
            "updates": updates(u1=2, u2=2, u3=2),
            "aggregators": ["w4"],
            "racks": {"r1": {"hosts": hosts, "up": [[0, MB]], "down": [[0, MB]]}},
        }
    )
    assert given["completion"] == {"u1": 2.0, "u2": 4.0, "u3": 4.0}
    assert [t["pieces"] for t in given["transfers"] if t["dst"] == "w4"] == [
        [[0.0, pytest.approx(0.2), 10e6]],
        [[pytest.approx(0.2), pytest.approx(0.4), 10e6]],
    ]


def test_a_busy_server_leaves_time_to_collect() -> None:
    """Both are summed by 6 s and arrive together at 9 s; straight, one after the other."""
    asked = busy_server(updates(u1=3, u2=3))
    assert answer({**asked, "aggregators": ["idle1"]})["completion"] == {"u1": 9.0, "u2": 9.0}
    assert answer(asked)["completion"] == {"u1": 9.0, "u2": 12.0}


def test_the_model_bounds_a_sum() -> None:
    """4 MB from 6 s on; by default a sum is as large as its largest member."""
    asked = {**busy_server(updates(u1=3, u2=3)), "aggregators": ["idle1"]}
    assert answer({**asked, "model_bytes": 4 * MB})["completion"] == {"u1": 10.0, "u2": 10.0}


def test_an_aggregator_is_used_again_only_where_that_is_allowed() -> None:
    """The first sum crosses from 6 to 9 s, u3 from 9.5 to 12.5 s; meanwhile u4 and u5 can meet."""
    late = [{**update, "ready": 9.5} for update in updates(u3=3, u4=3, u5=3)]
    asked = busy_server([*updates(u1=3, u2=3), *late])
    fast = links(h=100, w1=100, w2=100, w3=100, w4=100, w5=100)
    asked |= {"links": fast | {"s": asked["links"]["s"]}, "aggregators": ["h"]}
    first = {"u1": 9.0, "u2": 9.0, "u3": 12.5}
    assert answer(asked)["completion"] == {**first, "u4": 15.5, "u5": 15.5}
    once = answer({**asked, "reuse_aggregators": False})
    assert once["completion"] == {**first, "u4": 15.5, "u5": 18.5}


@pytest.mark.parametrize("aggregation", ["paper", "refined", "pipelined"])
def test_every_aggregation_is_at_least_as_good_as_none(aggregation: str) -> None:
    assert answer(fig6(aggregation=aggregation))["mean_completion"] <= 7.0  # none: 8 s


def test_options_reach_the_planner() -> None:
    options = {"ordering": "delay_aware", "aggregation": "pipelined", "chunk_bytes": 1000}
    batch = batch_of(read(fig6(**options)))
    assert (batch.ordering, batch.aggregation, batch.chunk_bytes) == tuple(options.values())
    assert batch_of(read(fig4())).aggregation == "none"


def test_planning_starts_now() -> None:
    """Ready long ago, sent from 2 s on: 2 MB/s for 3 s, 6 MB/s for 4 s."""
    assert answer({**fig4(), "now": 2.0})["completion"] == {"u1": 9.0}


def test_fair_sharing() -> None:
    """Half the link each until u1 is through at 2 s; then u2 has all of it for its last MB."""
    asked = {"server": "s", "links": links(s=1, w1=1, w2=1), "updates": updates(u1=1, u2=2)}
    given = answer({**asked, "sharing": "fair"})
    assert [t["pieces"] for t in given["transfers"]] == [
        [[0.0, 2.0, 0.5e6]],
        [[0.0, 2.0, 0.5e6], [2.0, 3.0, 1e6]],
    ]
    assert given["completion"] == {"u1": 2.0, "u2": 3.0}
    assert answer(asked)["completion"] == {"u1": 1.0, "u2": 3.0}


def test_random_aggregators_follow_the_seed() -> None:
    asked = fig6(links=fig6()["links"] | links(idle2=1, idle3=1), aggregator_choice="random")
    asked["aggregators"] = ["idle1", "idle2", "idle3"]
    chosen = [_first_via({**asked, "seed": seed}) for seed in range(12)]
    assert chosen == [_first_via({**asked, "seed": seed}) for seed in range(12)]
    assert set(chosen) == {"idle1", "idle2", "idle3"}
    assert _first_via({**asked, "aggregator_choice": "in_order"}) == "idle1"


def _first_via(problem: dict[str, Any]) -> Any:
    return next(g["via"] for g in answer(problem)["groups"] if g["via"] is not None)


def test_best_fit_takes_the_aggregator_that_collects_most() -> None:
    """idle1 gets 0.5 MB/s: u4 alone until 6 s."""
    asked = fig6(links=fig6()["links"] | links(idle1=0.5, idle2=1))
    asked["aggregators"] = ["idle1", "idle2"]
    assert _first_via({**asked, "aggregator_choice": "best_fit"}) == "idle2"


def test_a_replica_gets_the_same_updates_from_the_workers() -> None:
    """The bound is one update: the replica has u1 at 2 s, when u2 is committed.

    u1 goes there from 1 to 2 s, when w1 is done with the server; u2 from 0 to 1 s, while w2 waits.
    """
    batch = [{**update, "norm": 1.0} for update in updates(u1=1, u2=1)]
    asked = {"server": "s", "links": links(s=1, w1=1, w2=1, r=1), "updates": batch}
    given = answer({**asked, "replica": {"host": "r", "divergence_bound": 1.0}})
    assert given["completion"] == {"u1": 1.0, "u2": 2.0}
    assert given["replica"] == {
        "groups": [
            {
                "members": [id],
                "via": None,
                "version_before": before,
                "commit": 2.0,
                "transfers": [
                    {"what": id, "src": src, "dst": "r", "pieces": [[begin, begin + 1, 1e6]]}
                ],
            }
            for id, src, before, begin in [("u1", "w1", 0, 1.0), ("u2", "w2", 1, 0.0)]
        ],
        "max_divergence": 1.0,
    }


def test_exact_adds_the_optimum() -> None:
    """Straight they end at 2 and 4 s; summing takes 4 s to collect and 2 s to cross."""
    asked = {"server": "s", "links": links(s=1, w1=1, w2=1, w3=1), "updates": updates(u1=2, u2=2)}
    asked = {**asked, "aggregators": ["w3"]}
    given = answer(asked, exact=True)
    plan = answer(asked)
    assert {key: value for key, value in given.items() if key not in plan} == {
        "optimal_mean_completion": 3.0,
        "optimal_first_hop": {"u1": "s", "u2": "s"},
        "optimal_completion": dict(zip(given["optimal_completion"], [2.0, 4.0], strict=True)),
        "optimal_slot": 2.0,
    }
    assert given["optimal_completion"].keys() == {"u1", "u2"}
    assert given.items() >= plan.items()


def test_the_optimum_sums_only_where_that_is_asked_for() -> None:
    """Both arrive at 9 s in one sum, or at 9 and 12 s."""
    asked = {**busy_server(updates(u1=3, u2=3)), "aggregators": ["idle1"]}
    summed = answer(asked, exact=True)
    assert summed["optimal_mean_completion"] == 9.0
    assert summed["optimal_first_hop"] == {"u1": "idle1", "u2": "idle1"}
    assert summed["optimal_completion"] == {"u1": 9.0, "u2": 9.0}
    straight = answer({**asked, "aggregation": "none"}, exact=True)
    assert straight["optimal_mean_completion"] == straight["mean_completion"] == 10.5


def test_a_problem_is_left_as_it_is() -> None:
    asked = fig6()
    before = json.dumps(asked)
    answer(asked)
    assert json.dumps(asked) == before


def test_names_of_any_script_and_a_byte_order_mark(capsys: pytest.CaptureFixture[str]) -> None:
    hosts = {"工人": links(h=1)["h"], "sér ver\n": links(h=1)["h"]}
    update = {"id": "Δ", "worker": "工人", "bytes": MB, "version": 0, "ready": 0}
    problem = {"server": "sér ver\n", "links": hosts, "updates": [update]}
    data = json.dumps(problem, ensure_ascii=False).encode("utf-8-sig")
    assert main([], io.BytesIO(data)) == 0
    assert json.loads(capsys.readouterr().out)["completion"] == {"Δ": 1.0}
