"""Token buckets, and rates played by a trace."""

from __future__ import annotations

import pytest

from mlfabric.emulation.played import PlayedTrace
from mlfabric.emulation.spec import RateEvent
from mlfabric.engines.mpi import pacing


def test_a_bucket_lets_bytes_pass_at_its_rate(monkeypatch):
    now, rate = [0.0], [1e6]
    monkeypatch.setattr(pacing.time, "monotonic", lambda: now[0])
    bucket, passed = pacing.TokenBucket(lambda: rate[0]), 0
    for tick in range(4000):
        now[0] = tick * 0.001
        rate[0] = 1e6 if tick < 2000 else 1e5
        while bucket.has_room():
            bucket.take(1000)
            passed += 1000
    assert passed == pytest.approx((2e6 + 2e5) * pacing.GOODPUT, rel=0.01)


def test_an_idle_bucket_saves_up_little(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(pacing.time, "monotonic", lambda: now[0])
    bucket, passed = pacing.TokenBucket(lambda: 1e6), 0
    now[0] = 60.0
    while bucket.has_room():
        bucket.take(1000)
        passed += 1000
    assert passed == 1e6 * pacing.BURST_S


def test_a_trace_tells_the_rate_of_every_host_at_any_time():
    events = [RateEvent(3.0, "w1", 1.0), RateEvent(1.5, "w1", 0.1), RateEvent(1.5, "w2", 0.5)]
    trace = PlayedTrace({"server": 4.0, "w1": 2.0, "w2": 2.0}, events)
    assert trace.rates(0.0) == (4.0, 2.0, 2.0)
    assert trace.rates(1.5) == (4.0, 0.2, 1.0)
    assert trace.rates(99.0) == (4.0, 2.0, 1.0)
