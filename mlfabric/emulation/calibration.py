"""Measures, before a run, whether every shaped link really runs at its rate."""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from mlfabric.emulation import hosts
from mlfabric.emulation.network import Network
from mlfabric.emulation.shaping import FRAME_BYTES
from mlfabric.emulation.spec import TOLERATED_MISS, BubbleSpec

CALIBRATION_FILE = "calibration.json"

_WARM_UP_S = 0.2
_MEASURE_S = 0.5
_MEASURE_FRAMES = 200
_MAX_MEASURE_S = 5.0
_NAP_S = 0.001
_PORT = 7
_CHUNK = bytes(512 * 1024)
_PAYLOAD_BYTES = 1448
_ACK_FRAME_BYTES = 66
_TCP_INFO_BYTES = 256
_RECEIVED_AND_SEGMENTS_OUT = struct.Struct("=QI")
_RECEIVED_OFFSET = 128


@dataclass(frozen=True)
class Flow:
    """What one flow of the ring moved while it was measured."""

    src: int
    dst: int
    payload_bytes: int
    acks: int
    seconds: float

    @property
    def data_bytes_per_s(self) -> float:
        """Bytes on the wire, headers included, in the direction of the data."""
        return self.payload_bytes * FRAME_BYTES / _PAYLOAD_BYTES / self.seconds

    @property
    def ack_bytes_per_s(self) -> float:
        """Bytes on the wire in the other direction."""
        return self.acks * _ACK_FRAME_BYTES / self.seconds


def calibrate(spec: BubbleSpec, network: Network) -> None:
    """Load all links both ways at once, write calibration.json, report misses of over 5 %.

    One flow from each host to the next of a ring (ordered by rate, so that neighbors are equals
    where possible): every link carries the data of one flow and the acknowledgments of another. The
    first part, in which buckets hand out their savings, is not counted.
    """
    started_s = time.monotonic()
    rates = [host.bandwidth_bytes_per_s for host in spec.hosts]
    flows = _measure(network, rates) if len(rates) > 1 else []
    ratios = {spec.hosts[i].name: r for i, r in link_ratios(flows, rates).items()}
    misses = [abs(1 - ratio) for pair in ratios.values() for ratio in pair.values()]
    report = {
        "hosts": ratios,
        "worst_miss": max(misses, default=0.0),
        "seconds": time.monotonic() - started_s,
    }
    (spec.run_dir / CALIBRATION_FILE).write_text(json.dumps(report, indent=1))
    _complain(ratios)


def link_ratios(flows: Sequence[Flow], rates: Sequence[float]) -> dict[int, dict[str, float]]:
    """Achieved over promised rate, each direction of each host; a flow's slower end promises."""
    ratios: dict[int, dict[str, float]] = {}
    by_src = {flow.src: flow for flow in flows}
    by_dst = {flow.dst: flow for flow in flows}
    for host in by_src:
        sent, received = by_src[host], by_dst[host]
        ratios[host] = {
            "egress_ratio": (sent.data_bytes_per_s + received.ack_bytes_per_s)
            / min(rates[host], rates[sent.dst]),
            "ingress_ratio": (received.data_bytes_per_s + sent.ack_bytes_per_s)
            / min(rates[host], rates[received.src]),
        }
    return ratios


def _measure(network: Network, rates: Sequence[float]) -> list[Flow]:
    ring = sorted(range(len(rates)), key=lambda host: rates[host])
    pairs = list(zip(ring, ring[1:] + ring[:1], strict=True))
    measure_s = min(_MAX_MEASURE_S, max(_MEASURE_S, _MEASURE_FRAMES * FRAME_BYTES / min(rates)))
    senders, receivers = _connect(network, pairs)
    try:
        _pump(senders, receivers, _WARM_UP_S)
        before = [_progress(receiver) for receiver in receivers]
        _pump(senders, receivers, measure_s)
        after = [_progress(receiver) for receiver in receivers]
    finally:
        for end in (*senders, *receivers):
            end.close()
    return [
        Flow(src, dst, a.payload_bytes - b.payload_bytes, a.acks - b.acks, a.at_s - b.at_s)
        for (src, dst), b, a in zip(pairs, before, after, strict=True)
    ]


@dataclass(frozen=True)
class _Progress:
    at_s: float
    payload_bytes: int
    acks: int


def _progress(receiver: socket.socket) -> _Progress:
    """The kernel's counts: what has arrived, and the segments (acknowledgments) sent back."""
    info = receiver.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    payload_bytes, acks = _RECEIVED_AND_SEGMENTS_OUT.unpack_from(info, _RECEIVED_OFFSET)
    return _Progress(time.monotonic(), payload_bytes, acks)


def _connect(
    network: Network, pairs: Sequence[tuple[int, int]]
) -> tuple[list[socket.socket], list[socket.socket]]:
    """One connection for each (from, to); returns the sending and the receiving ends."""
    senders, receivers = [], []
    for src, dst in pairs:
        with network.inside(dst):
            listener = socket.create_server((hosts.address(dst), _PORT))
        with network.inside(src):
            senders.append(socket.create_connection((hosts.address(dst), _PORT)))
        receivers.append(listener.accept()[0])
        listener.close()
    for sender in senders:
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, len(_CHUNK))
    for end in (*senders, *receivers):
        end.setblocking(False)
    return senders, receivers


def _pump(
    senders: Sequence[socket.socket], receivers: Sequence[socket.socket], seconds: float
) -> None:
    """Keep senders supplied and receivers drained, with naps that leave the kernel time."""
    sink = bytearray(len(_CHUNK))
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        for sender in senders:
            with suppress(BlockingIOError):
                sender.send(_CHUNK)
        for receiver in receivers:
            with suppress(BlockingIOError):
                receiver.recv_into(sink)
        time.sleep(_NAP_S)


def _complain(ratios: Mapping[str, Mapping[str, float]]) -> None:
    missing = [
        f"{host} {direction.removesuffix('_ratio')} {ratio:.3f}"
        for host, pair in ratios.items()
        for direction, ratio in pair.items()
        if abs(1 - ratio) > TOLERATED_MISS
    ]
    if missing:
        print(f"emulated cluster: links off their rate: {', '.join(missing)}", file=sys.stderr)
