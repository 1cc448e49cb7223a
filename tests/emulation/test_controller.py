"""The straggler trace is played by the run's clock, and what happened is written down."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlfabric.emulation.controller import TraceController
from mlfabric.emulation.rates import RateBoard
from mlfabric.emulation.spec import BubbleSpec, HostSpec, RateEvent


def spec(run_dir: Path, *events: RateEvent) -> BubbleSpec:
    return BubbleSpec(
        hosts=(HostSpec("server", 1000.0), HostSpec("w1", 2000.0)),
        congestion_control="cubic",
        rate_events=events,
        run_dir=run_dir,
        command=("true",),
        env={},
        cwd=run_dir,
        launcher_pid=None,
    )


def test_without_events_it_never_wakes(tmp_path: Path) -> None:
    controller = TraceController(spec(tmp_path), lambda *_: None)
    assert controller.play(0.0) is None


def test_events_wait_for_the_clock_and_come_in_time(tmp_path: Path) -> None:
    applied: list[tuple[int, float]] = []
    events = (RateEvent(0.0, "w1", 0.5), RateEvent(3.0, "w1", 1.0))
    controller = TraceController(spec(tmp_path, *events), lambda *change: applied.append(change))

    assert controller.play(100.0) == pytest.approx(0.010)
    assert applied == []

    (tmp_path / "clock_start").write_text("101.5")
    assert controller.play(102.0) == pytest.approx(2.5)
    assert applied == [(1, 1000.0)]
    with RateBoard(tmp_path / "rates.bin") as board:
        assert board.read() == (1000.0, 1000.0)

    assert controller.play(104.75) is None
    assert applied == [(1, 1000.0), (1, 2000.0)]
    controller.close()
    assert (tmp_path / "network_applied.csv").read_text() == (
        "time_s,host,factor,rate_bytes_per_s\n0.500000,w1,0.5,1000.0\n3.250000,w1,1.0,2000.0\n"
    )
