"""Whatever stands anywhere in the planner's input, there is an answer or one line of refusal.

The order of an answer keeps the delay bound.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mlfabric.plan import answer
from mlfabric.plan.__main__ import main

RATES = [[0.0, 2e6], [1.0, 0.0], [1.5, 1e6]]
PROBLEM: dict[str, Any] = {
    "now": 0.0,
    "version": 7,
    "delay_bound": 3,
    "server": "s",
    "links": {h: {"egress": RATES, "ingress": RATES} for h in ("s", "a", "b", "h", "r")},
    "updates": [
        {"id": "u1", "worker": "a", "bytes": 10**6, "version": 7, "ready": 0.0, "norm": 1.0},
        {"id": "u2", "worker": "b", "bytes": 10**6, "version": 6, "ready": 0.5, "norm": 1.0},
        {"id": "u3", "worker": "b", "bytes": 10**6, "version": 5, "ready": 0.5, "norm": 1.0},
    ],
    "aggregators": ["h"],
    "aggregation": "paper",
    "aggregator_choice": "in_order",
    "seed": 0,
    "racks": {"k": {"hosts": ["a", "h"], "up": RATES, "down": RATES}},
    "replica": {"host": "r", "divergence_bound": 2.0, "pending_norm": 0.0},
}


def places(value: Any) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside a JSON value."""
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in inner:
        yield (key,)
        if isinstance(part, dict | list):
            yield from ((key, *rest) for rest in places(part))


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["s", "a", "b", "h", "r", "k", "u1", "none", "random", 0, 1, 2, 3, 1e-12])
)
values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3)
)


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.tuples(st.sampled_from(list(places(PROBLEM))), values), min_size=1, max_size=3))
def test_an_answer_or_one_line(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    problem = json.loads(json.dumps(PROBLEM))
    for where, value in changes:
        with contextlib.suppress(LookupError, TypeError):  # an earlier change took the place away
            put(problem, where, value)
    status, out, err = called(json.dumps(problem).encode())
    if status == 0:
        assert err == ""
        kept_and_dropped(problem, json.loads(out))
    else:
        assert (status, out, len(err.splitlines())) == (2, "", 1)


@settings(deadline=None)
@given(st.binary(max_size=30) | st.text(max_size=30).map(str.encode))
def test_what_is_no_problem_is_refused_in_one_line(data: bytes) -> None:
    status, out, err = called(data)
    assert (status, out, len(err.splitlines())) == (2, "", 1)


waiting = st.builds(
    lambda worker, mb, version, ready: {
        "worker": worker,
        "bytes": mb * 10**6,
        "version": version,
        "ready": ready,
    },
    st.sampled_from("abcd"),
    st.integers(1, 4),
    st.integers(0, 6),
    st.sampled_from([0.0, 1.0, 2.5]),
)
modes = st.sampled_from(
    [{"sharing": "fair"}]
    + [
        {"aggregation": mode, "aggregators": ["h", "a"], "ordering": ordering}
        for mode in ("none", "paper", "refined", "pipelined")
        for ordering in ("shortest", "delay_aware")
    ]
)


@settings(deadline=None)
@given(st.lists(waiting, min_size=1, max_size=7), st.integers(0, 8), modes)
def test_the_order_keeps_the_bound(
    batch: list[dict[str, Any]], bound: int, mode: dict[str, Any]
) -> None:
    """Read beside `groups`: the version at which a member is applied is that before its group."""
    updates = {f"u{i}": update for i, update in enumerate(batch)}
    hosts = {host: {"egress": RATES, "ingress": RATES} for host in "abcdhs"}
    given = answer(
        {
            "server": "s",
            "links": hosts,
            "version": 6,
            "delay_bound": bound,
            "updates": [{"id": id, **update} for id, update in updates.items()],
            **mode,
        }
    )
    place = 0
    for group in given["groups"]:
        members = given["order"][place : place + len(group["members"])]
        assert members == sorted(group["members"])  # the input's order
        assert group["version_before"] == 6 + place
        assert all(6 + place - updates[id]["version"] <= bound for id in members)
        assert {given["completion"][id] for id in members} == {group["commit"]}
        place += len(members)
    assert place == len(given["order"])
    ends = [given["completion"][id] for id in given["order"]]
    assert ends == sorted(ends)


def put(problem: Any, where: tuple[Any, ...], value: Any) -> None:
    """Replace the value in one place."""
    for part in where[:-1]:
        problem = problem[part]
    problem[where[-1]] = value


def called(data: bytes) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of the command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([], io.BytesIO(data))
    return status, out.getvalue(), err.getvalue()


def kept_and_dropped(problem: dict[str, Any], answer: dict[str, Any]) -> None:
    """Every update is there exactly once."""
    there = [*answer["order"], *(drop["id"] for drop in answer["dropped"])]
    assert sorted(there) == sorted(update["id"] for update in problem["updates"])
