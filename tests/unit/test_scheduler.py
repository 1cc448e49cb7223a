"""The scheduler step by step: drops, cancels, holds."""

from __future__ import annotations

from mlfabric.actions import CancelTransfer, CommitGroup, DropUpdate, Probe, StartTransfer, WakeAt
from mlfabric.events import (
    ModelRequested,
    TransferDone,
    TransferProgress,
    Update,
    UpdateReady,
    Woken,
)
from mlfabric.scheduler import Scheduler, SchedulerSettings
from mlfabric.topology import Link

LINE = 100.0


def scheduler(bound, aggregation="none", **more):
    workers = ("w1", "w2", "w3", "w4")
    return Scheduler(
        SchedulerSettings(
            server="server",
            workers=workers,
            delay_bound=bound,
            ordering="shortest",
            aggregation=aggregation,
            aggregators=workers,
            aggregator_choice="in_order",
            model_bytes=100,
            line_bytes_per_s=dict.fromkeys(("server", *workers), LINE),
            bandwidth="measured",
            rate_memory_s=100.0,
            chunk_bytes=10,
            seed=0,
            **more,
        )
    )


def ready(worker, version=0, n_bytes=100, at=0.0):
    return UpdateReady(Update(f"{worker}:{version}", worker, n_bytes, version, at))


def only(actions, kind):
    return [action for action in actions if isinstance(action, kind)]


def believed(s, host, way):
    return s._rates.rate(Link(host, way), 11.0)


def test_one_bottleneck_is_used_by_one_transfer_at_a_time():
    s = scheduler(None)
    (first,) = only(s.handle(ready("w1"), 0.0), StartTransfer)
    assert (first.src, first.dst) == ("w1", "server")
    assert s.handle(ready("w2"), 0.1) == []
    actions = s.handle(TransferDone(first.transfer, 100, LINE), 1.0)
    assert [type(a) for a in actions] == [CommitGroup, StartTransfer]
    assert actions[0] == CommitGroup((first.transfer,), ("w1:0",), ("w1",), (0,), 0, (1.0,))


def test_a_transfer_that_proves_slow_lets_the_next_one_start():
    s = scheduler(None)
    (slow,) = only(s.handle(ready("w1"), 0.0), StartTransfer)
    s.handle(ready("w2"), 0.1)
    started = only(s.handle(TransferProgress(slow.transfer, 2, 10.0), 0.2), StartTransfer)
    assert [a.src for a in started] == ["w2"]


def test_a_late_transfer_is_cancelled_and_its_update_dropped():
    """Bound 1: two commits pass w1's slow update, whose delay would then be 2."""
    s = scheduler(1)
    (slow,) = only(s.handle(ready("w1"), 0.0), StartTransfer)
    s.handle(TransferProgress(slow.transfer, 1, 1.0), 0.1)
    (second,) = only(s.handle(ready("w2"), 0.2), StartTransfer)
    assert only(s.handle(TransferDone(second.transfer, 100, LINE), 1.2), CommitGroup)
    (third,) = only(s.handle(ready("w3", version=1), 1.3), StartTransfer)
    actions = s.handle(TransferDone(third.transfer, 100, LINE), 2.3)
    assert only(actions, CancelTransfer) == [CancelTransfer(slow.transfer, "w1", "server")]
    assert only(actions, DropUpdate) == [DropUpdate("w1:0", "w1", 2)]
    assert only(actions, CommitGroup)[0].delays == (0,)
    assert s.handle(TransferDone(slow.transfer, 100, 1.0), 2.4) == []  # its last bytes, too late


def test_a_group_waits_for_one_that_is_nearly_there():
    """Bound 1: w3's group would make w1's too late, which lacks a twentieth of a transfer."""
    s = scheduler(1)
    (first,) = only(s.handle(ready("w1"), 0.0), StartTransfer)
    s.handle(TransferProgress(first.transfer, 10, 50.0), 0.2)
    (second,) = only(s.handle(ready("w2", n_bytes=45), 0.8), StartTransfer)
    assert only(s.handle(TransferDone(second.transfer, 45, 50.0), 1.7), CommitGroup)
    (third,) = only(s.handle(ready("w3", version=1, n_bytes=5), 1.75), StartTransfer)
    assert s.handle(TransferDone(third.transfer, 5, 50.0), 1.9) == [WakeAt(2.9)]
    actions = s.handle(TransferDone(first.transfer, 100, 50.0), 2.0)
    assert [(a.updates, a.delays) for a in only(actions, CommitGroup)] == [
        (("w1:0",), (1,)),
        (("w3:1",), (1,)),
    ]
    assert only(actions, DropUpdate) == []


def test_an_update_that_is_too_late_is_dropped_even_while_the_server_is_busy():
    s = scheduler(0)
    (first,) = only(s.handle(ready("w1", n_bytes=1000), 0.0), StartTransfer)
    s.handle(ready("w2"), 0.1)
    s.handle(TransferDone(first.transfer, 1000, LINE), 10.0)
    assert s.version == 1
    actions = s.handle(ready("w3", version=0), 10.1)
    assert DropUpdate("w3:0", "w3", 1) in actions


def test_models_spread_from_worker_to_worker():
    s = scheduler(None)
    (first,) = only(s.handle(ready("w1"), 0.0), StartTransfer)
    s.handle(ModelRequested("w2", 0), 0.5)  # nothing newer than version 0 yet
    s.handle(ModelRequested("w3", 0), 0.5)
    (spread,) = s.handle(TransferDone(first.transfer, 100, LINE), 1.0)[1:]
    assert (spread.version, spread.since) == (1, 0)
    assert [(src, dst) for _, src, dst in spread.edges] == [("server", "w2"), ("w2", "w3")]


def pipeline(bound):
    """w1's update has crossed alone; w3's goes to w2, whose sum of both follows it to the server.

    Returns the scheduler, the transfer that brings w3's to w2, and the one that crosses.
    """
    s = scheduler(bound, "pipelined")
    (alone,) = only(s.handle(ready("w1"), 0.0), StartTransfer)
    (bringing,) = [a for w in ("w2", "w3") for a in only(s.handle(ready(w), 0.1), StartTransfer)]
    actions = s.handle(TransferDone(alone.transfer, 100, LINE), 1.0)
    (crossing,) = only(actions, StartTransfer)
    return s, bringing, crossing


def test_a_sum_is_passed_on_while_it_comes_in():
    s, bringing, crossing = pipeline(None)
    assert (bringing.updates, bringing.dst, bringing.inputs) == (("w3:0",), "w2", ())
    assert (crossing.kind, crossing.src, crossing.dst) == ("sum", "w2", "server")
    assert (crossing.updates, crossing.inputs) == (("w2:0", "w3:0"), (bringing.transfer,))
    s.handle(TransferDone(bringing.transfer, 100, LINE), 1.9)
    (commit,) = only(s.handle(TransferDone(crossing.transfer, 100, LINE), 2.0), CommitGroup)
    assert (commit.updates, commit.delays) == (("w2:0", "w3:0"), (1, 1))


def test_a_slow_input_is_not_blamed_on_what_passes_it_on():
    s, bringing, crossing = pipeline(None)
    s.handle(TransferProgress(bringing.transfer, 10, 10.0), 1.1)
    s.handle(TransferProgress(crossing.transfer, 10, 10.0), 2.0)
    s.handle(TransferDone(bringing.transfer, 100, 10.0), 10.1)
    s.handle(TransferDone(crossing.transfer, 100, 10.0), 11.0)
    assert believed(s, "w2", "egress") == believed(s, "server", "ingress") == LINE
    assert believed(s, "w3", "egress") == 10.0


def test_a_late_member_of_a_sum_on_its_way_takes_the_others_along():
    """Bound 2: two commits pass the sum; a third would make w2's and w3's updates too late."""
    s, bringing, crossing = pipeline(2)
    s.handle(TransferProgress(bringing.transfer, 1, 1.0), 1.1)
    s.handle(TransferProgress(crossing.transfer, 1, 1.0), 2.0)
    (next_,) = only(s.handle(ready("w1", version=1, at=2.1), 2.1), StartTransfer)
    assert only(s.handle(TransferDone(next_.transfer, 100, LINE), 3.1), CommitGroup)
    (last,) = only(s.handle(ready("w4", version=2, at=3.2), 3.2), StartTransfer)
    actions = s.handle(TransferDone(last.transfer, 100, LINE), 4.2)
    cancelled = [a.transfer for a in only(actions, CancelTransfer)]
    assert cancelled == [bringing.transfer, crossing.transfer]
    assert only(actions, DropUpdate) == [DropUpdate("w2:0", "w2", 3), DropUpdate("w3:0", "w3", 3)]
    assert s.handle(TransferDone(bringing.transfer, 100, 1.0), 5.0) == []


def test_a_link_that_was_slow_and_is_idle_is_probed_and_found_to_have_recovered():
    s = scheduler(None, probes=True)
    (proof,) = only(s.handle(ready("w2"), 0.0), StartTransfer)
    s.handle(TransferDone(proof.transfer, 100, LINE), 1.0)
    (slow,) = only(s.handle(ready("w1"), 1.0), StartTransfer)
    s.handle(TransferDone(slow.transfer, 100, 20.0), 5.0)
    assert believed(s, "w1", "egress") == 20.0
    assert not only(s.handle(Woken(), 29.0), Probe)
    (probe,) = only(s.handle(Woken(), 31.0), Probe)
    assert (probe.src, probe.bytes) == ("w1", 30)
    assert probe.dst in ("w2", "w3", "w4")
    assert s.handle(Woken(), 32.0) == []
    s.handle(TransferDone(probe.transfer, 30, LINE), 33.0)
    assert s._rates.rate(Link("w1", "egress"), 33.0) == LINE
