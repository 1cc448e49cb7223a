"""Buckets, queues and calibration ratios, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlfabric.emulation.calibration import Flow, link_ratios
from mlfabric.emulation.rates import RateBoard
from mlfabric.emulation.shaping import FRAME_BYTES, Shape, packet_frames_for, shape_for


@pytest.mark.parametrize(
    ("rate", "burst", "ingress_queue"),
    [
        (312_500.0, 4_542, 48_448),  # 2.5 Mbit/s: three frames, 32 frames
        (3_125_000.0, 15_625, 93_750),  # 25 Mbit/s: 5 ms, 30 ms
        (125_000_000.0, 625_000, 3_750_000),  # 1 Gbit/s
    ],
)
def test_shape_follows_the_rate(rate: float, burst: int, ingress_queue: int) -> None:
    shape = shape_for(rate, packet_frames=2)
    assert shape == Shape(int(rate), burst, 4 * ingress_queue, ingress_queue)


@pytest.mark.parametrize(
    ("slowest", "frames"),
    [(3e5, 2), (3_125_000.0, 2), (12_500_000.0, 8), (1.25e8, 43)],  # 100 Mbit/s: 12,500 bytes a ms
)
def test_packets_take_about_a_millisecond(slowest: float, frames: int) -> None:
    assert packet_frames_for(slowest) == frames


@pytest.mark.parametrize("factor", [0.01, 0.1, 0.5, 1])
@pytest.mark.parametrize("bandwidth", [1e5, 3.125e6, 1.25e7, 1.25e8])
def test_a_packet_fits_the_bucket_at_every_rate(bandwidth: float, factor: float) -> None:
    frames = packet_frames_for(bandwidth)
    assert shape_for(bandwidth * factor, frames).burst_bytes > frames * FRAME_BYTES


def test_a_link_never_has_rate_zero() -> None:
    assert shape_for(0.2, packet_frames=2).rate_bytes_per_s == 1


def test_ratios_count_data_one_way_and_acknowledgments_the_other() -> None:
    # Two seconds; 1448 payload bytes are a 1514-byte frame, an acknowledgment is 66 bytes. Host 0
    # sends 1,514,000 + 1000 x 66 = 1,580,000 bytes, host 1 sends 757,000 + 132,000.
    flows = [Flow(0, 1, 1_448_000, 2000, 2.0), Flow(1, 0, 724_000, 1000, 2.0)]
    ratios = link_ratios(flows, [1_000_000.0, 500_000.0])
    assert ratios[0]["egress_ratio"] == pytest.approx(1_580_000 / 2 / 500_000)
    assert ratios[0]["ingress_ratio"] == pytest.approx(889_000 / 2 / 500_000)
    assert ratios[1]["egress_ratio"] == pytest.approx(889_000 / 2 / 500_000)
    assert ratios[1]["ingress_ratio"] == pytest.approx(1_580_000 / 2 / 500_000)


def test_rate_board_shows_what_was_set(tmp_path: Path) -> None:
    path = tmp_path / "rates.bin"
    with RateBoard.create(path, [1.5, 2.5]) as writer, RateBoard(path) as reader:
        assert reader.read() == (1.5, 2.5)
        writer.set(1, 0.25)
        assert reader.read() == (1.5, 0.25)
        with pytest.raises(TypeError):
            reader.set(0, 9.0)
