"""What receivers see of streams: how fast they come, and that links have changed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mlfabric.engines.virtual.agenda import Agenda
from mlfabric.engines.virtual.streams import Streams
from mlfabric.payload import Payload
from mlfabric.topology import Link
from tests.support.virtual import virtual_plan

NOTHING = Payload(0, None, np.empty(0, np.float32))
RATE = 1e6  # bytes/s of every link
CHUNK = 10_000


class Heard:
    """Keeps what every receiver is told: (what, source host, seconds, bytes/s)."""

    def __init__(self, agenda):
        self.told = []
        self._agenda = agenda

    def _note(self, what, stream):
        self.told.append((what, stream.src, self._agenda.now, stream.bytes_per_s))

    def announced(self, stream):
        pass

    def progress(self, stream):
        self._note("progress", stream)

    def ending(self, stream):
        self._note("ending", stream)

    def arrived(self, stream):
        self._note("arrived", stream)

    def record_transfer(self, stream):
        pass

    def of(self, what, src):
        return [(at, rate) for kind, host, at, rate in self.told if (kind, host) == (what, src)]


class Scene:
    """Streams between four hosts, without whoever sends them."""

    def __init__(self):
        plan = virtual_plan("mlfabric_a", 3, chunk_bytes=CHUNK, share_spread=0.0)
        self.agenda = Agenda()
        self.heard = Heard(self.agenda)
        hosts = dict.fromkeys(plan.hosts, self.heard)
        self.streams = Streams(plan, self.agenda, hosts, in_order=False, watched=True)

    def send(self, src, dst, n_bytes, inputs=()):
        return self.streams.send(src, dst, {"shard": 0}, NOTHING, n_bytes, inputs)

    def slow_down(self, host, factor, at_s):
        links = [(Link(host, way), RATE * factor) for way in ("egress", "ingress")]
        self.agenda.at(at_s, self.streams.set_rates, links)

    def run(self):
        fabric, agenda = self.streams.fabric, self.agenda
        while min(fabric.next_s(), agenda.next_s()) < math.inf:
            if fabric.next_s() <= agenda.next_s():
                agenda.now = max(agenda.now, fabric.next_s())
                self.streams.advance()
            else:
                agenda.step()
        return self.heard


def test_a_steady_stream_is_told_of_once_and_when_one_chunk_is_lacking():
    scene = Scene()
    stream = scene.send("w1", "server", 100 * CHUNK)
    heard = scene.run()
    ((first_s, seen),) = heard.of("progress", "w1")
    ((ending_s, _),) = heard.of("ending", "w1")
    began_s = first_s - 2 * CHUNK / seen
    assert ending_s == pytest.approx(began_s + 99 * CHUNK / seen)
    assert stream.done


@pytest.mark.parametrize("n_bytes", [0, 1, CHUNK])
def test_a_stream_of_one_chunk_at_most_is_not_looked_at(n_bytes):
    scene = Scene()
    source = scene.send("w1", "w2", 50 * CHUNK)
    scene.send("w2", "server", n_bytes, inputs=[source])
    heard = scene.run()
    assert not heard.of("progress", "w2")
    assert not heard.of("ending", "w2")
    assert len(heard.of("arrived", "w2")) == 1


@pytest.mark.parametrize("at_s", [0.0015, 0.005, 0.3])
def test_a_stream_that_slows_down_is_seen_to(at_s):
    """Of 100 chunks; a link falls to a twentieth before the first, or in the middle."""
    scene = Scene()
    source = scene.send("w1", "w2", 100 * CHUNK)
    scene.send("w2", "server", 100 * CHUNK, inputs=[source])
    scene.slow_down("w2", 0.05, at_s)
    seen = [rate for _, rate in scene.run().of("progress", "w2")]
    assert seen
    assert min(seen) < 0.15 * RATE
