"""Which group commits next, and which would be too late behind it."""

from __future__ import annotations

from mlfabric.events import Update
from mlfabric.planning.commits import OpenGroup, next_commit
from mlfabric.planning.loads import Transfer


def group(*versions, arrived=False):
    members = [Update(f"u{v}", f"w{i}", 10, v, 0.0) for i, v in enumerate(versions)]
    crossing = Transfer("t", "sum", tuple(u.id for u in members), "w0", "server", 10.0)
    return OpenGroup(members, None, crossing, arrived=arrived)


def test_without_a_bound_groups_commit_as_they_arrive():
    first, second = group(9, arrived=True), group(1, arrived=True)
    assert next_commit([first, second], 10, None) == (first, [])


def test_the_group_with_the_least_slack_goes_first():
    loose, tight = group(9, arrived=True), group(5, 9, arrived=True)
    assert next_commit([loose, tight], 10, 6)[0] is tight  # slack 1 against 5


def test_a_group_on_its_way_that_would_come_too_late_is_named():
    """Version 10, bound 5: after two commits an update of version 6 would have delay 6."""
    ready, coming, fine = group(10, 10, arrived=True), group(6), group(7)
    assert next_commit([ready, coming, fine], 10, 5) == (ready, [coming])


def test_nothing_commits_before_it_has_arrived():
    assert next_commit([group(1), group(2)], 10, 1) == (None, [])
