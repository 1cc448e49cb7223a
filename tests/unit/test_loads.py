"""What is free of links while transfers run, and who may start."""

from __future__ import annotations

import pytest

from mlfabric.planning.loads import LinkLoads, Transfer
from mlfabric.planning.queue import StartQueue
from mlfabric.planning.residual import Network
from mlfabric.topology import Link

LINE = 100.0
HOSTS = ("server", "w1", "w2", "w3")


@pytest.fixture
def loads():
    network = Network(HOSTS)
    return LinkLoads(network, dict.fromkeys(network.link_row, LINE))


def transfer(name, src, dst="server", n_bytes=100.0, **more):
    return Transfer(name, "update", (name,), src, dst, n_bytes, **more)


def row(loads, host, way):
    return loads.network.link_row[Link(host, way)]


def test_a_transfer_takes_what_its_path_has_and_gives_it_back(loads):
    ingress = row(loads, "server", "ingress")
    loads.set_rate(row(loads, "w1", "egress"), 30.0)
    loads.start(transfer("a", "w1"), 0.0)
    assert loads.free(ingress) == 70.0
    loads.start(transfer("b", "w2"), 0.0)
    assert loads.free(ingress) == 0.0
    loads.stop("b")
    assert loads.free(ingress) == 70.0
    loads.stop("b")  # once more does nothing
    assert loads.free(ingress) == 70.0


def test_what_passes_on_a_slow_input_takes_no_more_than_that_brings(loads):
    """The input lacks 100 bytes at 10 bytes/s: its output cannot end before 10 s."""
    loads.set_rate(row(loads, "w1", "egress"), 10.0)
    source = transfer("a", "w1", "w2")
    loads.start(source, 0.0)
    loads.start(transfer("b", "w2", inputs=[source], chunked=True), 0.0)
    assert loads.free(row(loads, "server", "ingress")) == pytest.approx(90.0)


def test_the_residual_is_the_same_on_a_part_of_the_network(loads):
    """20 bytes/s of w3's run until 5 s; the queued 90 bytes then follow at what is left."""
    loads.set_rate(row(loads, "w3", "egress"), 20.0)
    loads.start(transfer("a", "w3"), 0.0)
    residual = loads.residual(["server"], [transfer("b", "w2", n_bytes=80.0)], 0.0)
    assert set(residual.network.hosts) >= {"server", "w2"}
    profile = residual.profile(Link("server", "ingress"))
    assert (profile.times, profile.rates) == ((0.0, 1.0, 5.0), (0.0, 80.0, 100.0))


@pytest.mark.parametrize(
    ("queued", "wanted", "when"),
    [(0.0, 80.0, 0.0), (0.0, 81.0, 5.0), (40.0, 50.0, 0.5), (500.0, 50.0, 6.0)],
)
def test_when_a_link_is_free_again(loads, queued, wanted, when):
    """80 bytes/s are free until 5 s, 100 from then on; what is queued goes first."""
    loads.set_rate(row(loads, "w3", "egress"), 20.0)
    loads.start(transfer("a", "w3"), 0.0)
    ingress = row(loads, "server", "ingress")
    assert loads.first_time_at(ingress, wanted, queued, 0.0) == pytest.approx(when)


def test_waiting_transfers_start_in_order_as_room_is_gained(loads):
    queue = StartQueue(loads)
    first, second, third = (transfer(f"t{i}", f"w{i}") for i in (1, 2, 3))
    for place, waiting in ((2, third), (1, second), (0, first)):
        queue.add(waiting, (1, place, 0))
    started = []
    while len(started) < 3:
        while (found := queue.pop()) is not None:
            loads.start(found, 0.0)
            started.append(found.id)
        loads.stop(started[-1])
    assert started == ["t1", "t2", "t3"]


def test_a_host_that_proves_slow_may_start_with_less(loads):
    """A third of the server's link is free: enough for w2 once its link is known to be slow."""
    queue, running, waiting = StartQueue(loads), transfer("a", "w1"), transfer("b", "w2")
    loads.start(running, 0.0)
    loads.correct(running, 7, 70.0, 0.1)
    queue.add(waiting, (0, 0, 0))
    assert queue.pop() is None
    slow = row(loads, "w2", "egress")
    loads.set_rate(slow, 50.0)
    queue.rate_changed(slow)
    assert queue.pop() is waiting
