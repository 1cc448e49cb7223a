"""Which group commits next, and which would be too late behind it."""

from __future__ import annotations

from mlfabric.events import Update
from mlfabric.planning.commits import OpenGroup, next_commit
from mlfabric.planning.loads import Transfer


def group(*versions, arrived=False):
    members = [Update(f"u{v}", f"w{i}", 10, v, 0.0) for i, v in enumerate(versions)]
    crossing = Transfer("t", "sum", tuple(u.id for u in members), "w0", "server", 10.0)
    return OpenGroup(members, [crossing], arrived=arrived)


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


def hop(name, src, dst, *updates, chunked=True):
    kind = "sum" if len(updates) > 1 else "update"
    return Transfer(name, kind, updates, src, dst, 10.0, chunked=chunked)


def tree(chunked):
    """u1 and u2 meet at w0, which passes their sum on to w3, u4's host; u3 comes to w3, too."""
    members = [Update(f"u{v}", f"w{v}", 10, v, 0.0) for v in (1, 2, 3, 4)]
    hops = [
        hop("t1", "w1", "w0", "u1", chunked=chunked),
        hop("t2", "w2", "w0", "u2", chunked=chunked),
        hop("t3", "w5", "w3", "u3", chunked=chunked),
        hop("t4", "w0", "w3", "u1", "u2", chunked=chunked),
        hop("t5", "w3", "server", "u1", "u2", "u3", "u4", chunked=chunked),
    ]
    return OpenGroup(members, hops), *hops


def begin(found, *transfers):
    """Each starts; returns the names of those that this allows to start."""
    allowed = []
    for transfer in transfers:
        transfer.started_s = 0.0
        allowed.append(found.has_begun(transfer))
    return [transfer.id for transfer in allowed if transfer]


def test_a_chunked_sum_may_start_when_all_its_inputs_have():
    found, t1, t2, t3, t4, _ = tree(chunked=True)
    assert [t.id for t in found.startable()] == ["t1", "t2", "t3"]
    assert begin(found, t1, t3) == []
    assert begin(found, t2) == ["t4"]
    assert begin(found, t4) == ["t5"]


def test_a_sum_that_is_not_chunked_may_start_when_all_its_inputs_have_arrived():
    found, t1, t2, t3, t4, t5 = tree(chunked=False)
    assert begin(found, t1, t2, t3) == []
    assert [found.has_arrived(t) for t in (t1, t2, t3)] == [None, t4, None]
    assert begin(found, t4) == []
    assert found.has_arrived(t4) is t5


def test_members_leave_as_long_as_nothing_that_contains_them_is_sent():
    """Version 5: u1 and u2 are over a bound of 2; u1 is on its way to w0 alone."""
    found, t1, t2, t3, t4, t5 = tree(chunked=True)
    begin(found, t1, t3)
    late = found.too_late(5, 2)
    assert [u.id for u in late] == ["u1", "u2"]
    assert found.leave(late) == [t1, t2, t4]
    assert [t.id for t in found.startable()] == ["t5"]  # all that still comes in has begun
    assert (t5.updates, t5.inputs, found.oldest) == (("u3", "u4"), [t3], 3)


def test_once_a_sum_is_sent_all_members_leave_together():
    found, t1, t2, t3, t4, t5 = tree(chunked=True)
    begin(found, t1, t2, t3, t4)
    late = found.too_late(5, 3)
    assert [u.id for u in late] == ["u1", "u2", "u3", "u4"]
    assert found.leave(late) == [t1, t2, t3, t4, t5]
    assert found.members == []
