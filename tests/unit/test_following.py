"""What a replica is to be sent, in which order it commits, and what the server waits for."""

from __future__ import annotations

import itertools

import pytest

from mlfabric.actions import CommitAtReplica, CopyGroup
from mlfabric.counting import Count
from mlfabric.events import Update
from mlfabric.planning.commits import OpenGroup
from mlfabric.planning.copying import Copying
from mlfabric.planning.dispatch import Dispatch
from mlfabric.planning.following import Follower
from mlfabric.planning.loads import LinkLoads, Transfer
from mlfabric.planning.residual import Network
from mlfabric.policies.base import Replication
from mlfabric.topology import BIG_SWITCH


def follower(bound=10.0, rounds=8.0, momentum=0.0, workers=2):
    names = (f"c{number}" for number in itertools.count(1))
    return Follower(Replication("r", "bounded", bound, rounds), names, momentum, workers)


def group(name, *norms):
    members = [Update(f"{name}{i}", f"w{i}", 100, 0, 0.0, norm) for i, norm in enumerate(norms)]
    updates = tuple(update.id for update in members)
    kind = "sum" if len(updates) > 1 else "update"
    return OpenGroup(members, [Transfer(f"x{name}", kind, updates, "w0", "server", 100.0)])


def committed(of, *groups, version=0):
    copies = [of.copy_of(g) for g in groups]
    of.committed(groups, version)
    return copies


def test_a_copy_comes_from_whoever_has_sent_the_group_to_the_server():
    of, one = follower(), group("a", 1.0, 2.0)
    copy = of.copy_of(one)
    assert (copy.src, copy.dst, copy.bytes, copy.kind) == ("w0", "r", 100.0, "copy")
    assert of.order_to_send(copy) == CopyGroup("c1", "xa", ("a0", "a1"), "w0", "r")


def test_the_replica_commits_in_the_server_s_order():
    of, one, two = follower(), group("a", 1.0), group("b", 2.0)
    (first,) = committed(of, one)
    (second,) = committed(of, two, version=1)
    second.arrived = True
    assert of.due() == []
    first.arrived = True
    assert of.due() == [CommitAtReplica(("c1",), ("a0",), 0), CommitAtReplica(("c2",), ("b0",), 1)]
    assert of.due() == []


def test_what_is_committed_counts_until_the_replica_reports_it():
    of = follower(bound=3.0)
    (first,) = committed(of, group("a", 1.0))
    (second,) = committed(of, group("b", 2.0), version=1)
    assert of.divergence == (3.0, 3.0)
    first.arrived = second.arrived = True
    of.due()
    of.caught_up(1)
    assert of.pending_norm == 2.0
    of.caught_up(2)
    assert of.pending_norm == 0.0


@pytest.mark.parametrize(("norm", "fits"), [(1.0, True), (1.5, False)])
def test_a_commit_must_stay_within_the_bound(norm, fits):
    of, one = follower(bound=3.0), group("b", norm)
    committed(of, group("a", 2.0))
    of.copy_of(one)
    assert of.allows([one]) == fits


def test_what_is_beyond_the_bound_by_itself_is_committed_once_the_replica_can_too():
    of, large = follower(bound=3.0), group("b", 4.0)
    (earlier,) = committed(of, group("a", 1.0))
    copy = of.copy_of(large)
    copy.arrived = True
    assert not of.allows([large])  # the replica lacks another one
    earlier.arrived = True
    of.due()
    of.caught_up(1)
    assert of.allows([large])
    copy.arrived = False
    assert not of.allows([large])


def test_the_first_updates_set_the_bound_and_are_committed_together():
    of, one, two = follower(bound=None, rounds=3.0), group("a", 1.0), group("b", 2.0)
    copy = of.copy_of(one)
    assert not of.allows([one])
    copy.arrived = True
    assert of.allows([one])
    of.committed([one], 0)
    assert of.divergence == (1.0, None)
    of.due()
    of.caught_up(1)
    of.copy_of(two).arrived = True
    of.committed([two], 1)
    assert of.bound == 3.0 * (1.0 + 2.0)


def test_a_server_with_momentum_moves_by_its_velocity():
    of, one, two = follower(bound=100.0, momentum=0.5), group("a", 2.0), group("b", 1.0)
    committed(of, one)
    assert of.pending_norm == 2.0
    committed(of, two, version=1)
    assert of.pending_norm == 2.0 + (0.5 * 2.0 + 1.0)


def test_copies_go_before_what_has_not_set_off_and_in_turn_with_what_has():
    network = Network(("server", "r", "w0"), BIG_SWITCH)
    dispatch = Dispatch(LinkLoads(network, dict.fromkeys(network.link_row, 100.0)))
    numbers = Count()
    planned, earlier, later = (
        Transfer(name, "update", (name,), "w0", "server", 100.0)
        for name in ("planned", "earlier", "later")
    )
    copying = Copying(follower(), dispatch, numbers)
    dispatch.add(planned, (1, 0, 0))
    dispatch.add(earlier, (0, next(numbers), 0))
    copying.arrived(group("a", 1.0))
    dispatch.add(later, (0, next(numbers), 0))
    order = [transfer.id for transfer in iter(dispatch.next, None)]
    assert order == ["earlier", "c1", "later", "planned"]


def test_a_dropped_group_leaves_its_copy_to_be_cancelled():
    of, one = follower(), group("a", 1.0)
    copy = of.copy_of(one)
    assert of.dropped(one) is copy
    assert of.dropped(group("b", 1.0)) is None


def two_committed(of):
    """Two commits of one group each, from w0 and, the second, from w0, too."""
    one, two = group("a", 1.0), group("b", 1.0)
    return committed(of, one) + committed(of, two, version=1)


def test_what_a_lost_host_was_to_send_is_mended_by_the_server():
    of = follower()
    first, second = two_committed(of)
    first.arrived = True
    assert of.lose("w0") == [second]
    assert of.due() == [CommitAtReplica(("c1",), ("a0",), 0)]
    synchronize, needless = of.repair(2, "server")
    assert (synchronize.src, synchronize.dst, synchronize.version) == ("server", "r", 2)
    assert needless == []
    assert of.repair(2, "server") is None  # once is enough
    assert of.due() == []
    of.caught_up(2)
    assert of.divergence == (0.0, 10.0)


def test_copies_that_the_server_s_state_holds_are_needless():
    of = follower()
    first, second = two_committed(of)
    second.src = "w1"
    of.lose("w0")
    _, needless = of.repair(2, "server")
    assert needless == [second]
    third = committed(of, group("c", 1.0), version=2)[0]
    third.arrived = True
    assert of.due() == []  # not before the state is there
    of.caught_up(2)
    assert [order.version for order in of.due()] == [2]
    assert first.arrived is False


def test_a_promoted_replica_counts_what_nobody_can_send():
    of = follower()
    first, second = two_committed(of)
    second.src = "w1"
    second.arrived = True
    of.lose("w0")
    of.promoted = True
    assert of.catching_up
    assert of.repair(2, "server") is None
    assert of.due() == [CommitAtReplica((), ("a0",), 0), CommitAtReplica(("c2",), ("b0",), 1)]
    of.caught_up(2)
    assert not of.catching_up
    assert first.arrived is False


def test_other_copies_of_a_lost_commit_are_to_be_cancelled():
    of = follower(bound=100.0)
    one, two = group("a", 1.0), group("b", 1.0)
    first, second = of.copy_of(one), of.copy_of(two)
    second.src = "w1"
    of.committed([one, two], 0)
    of.promoted = True
    of.lose("w0")
    assert [order.transfers for order in of.due()] == [()]
    assert of.take_needless() == [second]
    assert of.take_needless() == []
    assert first.arrived is False
