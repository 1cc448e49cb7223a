"""Straggler draws depend on seed, host and period (or worker and iteration) and on nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlfabric.emulation.spec import RateEvent
from mlfabric.emulation.stragglers import (
    ComputeStragglers,
    NetworkStragglers,
    compute_factor,
    network_events,
    read_trace,
    write_trace,
)
from mlfabric.errors import SettingError

OFTEN = NetworkStragglers(probability=0.3, factor=0.25, period_s=2.0)
HOSTS = [f"w{i}" for i in range(1, 9)]


def of_host(events: list[RateEvent], host: str) -> list[RateEvent]:
    return [event for event in events if event.host == host]


def slow_periods(events: list[RateEvent], host: str, periods: int) -> int:
    """Replay one host's events; count the periods spent slow."""
    factors = {round(event.time_s / 2.0): event.factor for event in of_host(events, host)}
    count, current = 0, 1.0
    for period in range(periods):
        current = factors.get(period, current)
        count += current < 1
    return count


def test_same_seed_same_trace_another_seed_another() -> None:
    assert network_events(OFTEN, HOSTS, 3, 100) == network_events(OFTEN, HOSTS, 3, 100)
    assert network_events(OFTEN, HOSTS, 3, 100) != network_events(OFTEN, HOSTS, 4, 100)


def test_a_host_meets_the_same_whoever_else_is_asked_for() -> None:
    everyone = network_events(OFTEN, HOSTS, 0, 100)
    for host in HOSTS:
        assert network_events(OFTEN, [host], 0, 100) == of_host(everyone, host)
    backwards = network_events(OFTEN, HOSTS[::-1], 0, 100)
    assert of_host(backwards, "w3") == of_host(everyone, "w3")


def test_hosts_differ() -> None:
    events = network_events(OFTEN, HOSTS, 0, 200)
    times = {tuple(event.time_s for event in of_host(events, host)) for host in HOSTS}
    assert len(times) == len(HOSTS)


def test_a_longer_horizon_only_adds() -> None:
    long = network_events(OFTEN, HOSTS, 1, 100)
    assert network_events(OFTEN, HOSTS, 1, 40) == [event for event in long if event.time_s < 40]


def test_only_changes_in_order_of_time() -> None:
    events = network_events(OFTEN, HOSTS, 0, 200)
    assert [e.time_s for e in events] == sorted(e.time_s for e in events)
    assert all(e.time_s % 2.0 == 0 for e in events)
    for host in HOSTS:
        factors = [event.factor for event in of_host(events, host)]
        assert factors == [0.25 if i % 2 == 0 else 1.0 for i in range(len(factors))]


def test_slow_as_often_as_asked() -> None:
    events = network_events(OFTEN, HOSTS, 0, 2.0 * 500)
    slow = sum(slow_periods(events, host, 500) for host in HOSTS)
    assert slow / (8 * 500) == pytest.approx(0.3, abs=0.03)  # four standard deviations


def test_never_and_always() -> None:
    never = NetworkStragglers(probability=0, factor=0.5, period_s=1)
    always = NetworkStragglers(probability=1, factor=0.5, period_s=1)
    assert network_events(never, HOSTS, 0, 100) == []
    assert network_events(always, ["w1"], 0, 100) == [RateEvent(0.0, "w1", 0.5)]


def test_compute_factor_is_a_function_of_its_arguments() -> None:
    stragglers = ComputeStragglers(probability=0.5, max_factor=6)
    draws = {(w, i): compute_factor(stragglers, 7, w, i) for w in range(4) for i in range(50)}
    assert draws[2, 31] == compute_factor(stragglers, 7, 2, 31)
    slow = [factor for factor in draws.values() if factor != 1]
    assert len(set(slow)) == len(slow)


def test_compute_factor_has_the_stated_distribution() -> None:
    stragglers = ComputeStragglers(probability=0.2, max_factor=2.5)
    factors = [compute_factor(stragglers, 0, w, i) for w in range(8) for i in range(500)]
    slow = [factor for factor in factors if factor > 1]
    assert len(slow) / len(factors) == pytest.approx(0.2, abs=0.026)
    assert min(factors) >= 1
    assert max(factors) <= 2.5
    assert sum(slow) / len(slow) == pytest.approx(1.75, abs=0.07)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: NetworkStragglers(1.5, 0.1, 1), "network.probability is 1.5; allowed: in [0, 1]"),
        (lambda: NetworkStragglers(0.5, 0, 1), "network.factor is 0; allowed: in (0, 1]"),
        (lambda: NetworkStragglers(0.5, 0.1, 0), "network.period_s is 0; allowed: above 0"),
        (lambda: ComputeStragglers(-1, 2), "compute.probability is -1; allowed: in [0, 1]"),
        (lambda: ComputeStragglers(0.1, 0.5), "compute.max_factor is 0.5; allowed: at least 1"),
    ],
)
def test_bad_settings_are_refused(make: object, told: str) -> None:
    with pytest.raises(SettingError) as caught:
        make()  # type: ignore[operator]
    assert str(caught.value) == told


def test_trace_survives_a_file(tmp_path: Path) -> None:
    events = network_events(OFTEN, HOSTS, 0, 60)
    write_trace(tmp_path / "trace.csv", events)
    assert read_trace(tmp_path / "trace.csv") == events


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("time,host\n", ":1: header is 'time,host'; allowed: time_s,host,factor"),
        ("", ":1: header is ''; allowed: time_s,host,factor"),
        ("time_s,host,factor\n1,w1,0.5\n2,w1\n", ":3: '2,w1'; allowed: number,host,number"),
        ("time_s,host,factor\nx,w1,0.5\n", ":2: 'x,w1,0.5'; allowed: number,host,number"),
        ("time_s,host,factor\n1,w1,1.5\n", ":2: factor is 1.5; allowed: in (0, 1]"),
        ("time_s,host,factor\n-1,w1,0.5\n", ":2: time_s is -1.0; allowed: 0 or more"),
    ],
)
def test_a_bad_trace_names_file_and_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(SettingError) as caught:
        read_trace(path)
    assert str(caught.value) == f"{path}{told}"
