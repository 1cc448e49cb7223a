"""Links of a bubble run at their rate, alone, shared, and after the rate has changed."""

from __future__ import annotations

import csv
import json
import sys

import pytest

from mlfabric.emulation.rates import RateBoard

from .conftest import PROGRAMS, PROJECT, Bubble

WIRE_PER_PAYLOAD = 1514 / 1448
TENTHS = 10


def goodput(bubble: Bubble, seconds: float, senders: list[str]) -> list[float]:
    """Wire rate into the server in each tenth of a second, as a fraction of its bandwidth."""
    program = ["env", f"PYTHONPATH={PROJECT}", sys.executable, str(PROGRAMS / "goodput.py")]
    result = bubble.run(*program, str(bubble.run_dir), str(seconds), *senders)
    assert result.returncode == 0, result.stderr
    scale = TENTHS * WIRE_PER_PAYLOAD / bubble.bandwidth_bytes_per_s
    return [size * scale for size in json.loads(result.stdout)]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.parametrize("bandwidth_bytes_per_s", [8.25e5, 3.125e6, 1.25e7])
def test_calibration_finds_ten_links_at_their_rate(
    bubble: Bubble, bandwidth_bytes_per_s: float
) -> None:
    bubble.count, bubble.bandwidth_bytes_per_s = 10, bandwidth_bytes_per_s
    result = bubble.run("true")
    assert result.returncode == 0
    report = json.loads((bubble.run_dir / "calibration.json").read_text())
    assert len(report["hosts"]) == 10
    assert all(set(pair) == {"egress_ratio", "ingress_ratio"} for pair in report["hosts"].values())
    ratios = [ratio for pair in report["hosts"].values() for ratio in pair.values()]
    assert report["worst_miss"] == max(abs(1 - ratio) for ratio in ratios)
    assert report["worst_miss"] < 0.05
    assert report["seconds"] < 2


def test_one_sender_fills_a_link(bubble: Bubble) -> None:
    assert 0.95 < mean(goodput(bubble, 1.5, ["w1"])[5:]) < 1.03


def test_eight_senders_fill_one_receivers_link(bubble: Bubble) -> None:
    bubble.count = 10
    assert 0.90 < mean(goodput(bubble, 2, [f"w{i}" for i in range(1, 9)])[5:]) < 1.03


def test_rate_events_change_the_achieved_rate(bubble: Bubble) -> None:
    bubble.rate_events = [(1.0, "w1", 0.1), (2.0, "w1", 1.0)]
    rates = goodput(bubble, 3, ["w1"])
    assert 0.9 < mean(rates[5:10]) < 1.1
    assert 0.08 < mean(rates[12:20]) < 0.13
    assert 0.9 < mean(rates[22:]) < 1.05

    with (bubble.run_dir / "network_applied.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["host"] for row in rows] == ["w1", "w1"]
    assert [float(row["rate_bytes_per_s"]) for row in rows] == [312500.0, 3125000.0]
    assert all(0 <= float(r["time_s"]) - t < 0.2 for r, t in zip(rows, [1, 2], strict=True))
    with RateBoard(bubble.run_dir / "rates.bin") as board:
        assert board.read() == (3.125e6, 3.125e6, 3.125e6)
