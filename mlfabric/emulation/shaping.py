"""Token bucket and queue of a link, derived from its rate."""

from __future__ import annotations

from dataclasses import dataclass

FRAME_BYTES = 1514
"""A full Ethernet frame as the kernel's shapers count it (1500-byte packet, 14-byte header)."""

_PACKET_S = 0.001
_MIN_PACKET_FRAMES = 2
_MAX_PACKET_FRAMES = 43
_BURST_S = 0.005
_INGRESS_QUEUE_S = 0.030
_MIN_INGRESS_QUEUE_FRAMES = 32
_EGRESS_QUEUE_FACTOR = 4


@dataclass(frozen=True)
class Shape:
    """Parameters of the token bucket filters at both ends of a host's cable."""

    rate_bytes_per_s: int
    burst_bytes: int
    egress_queue_bytes: int
    ingress_queue_bytes: int


def packet_frames_for(slowest_bytes_per_s: float) -> int:
    """Frames that the hosts' kernels may hand over as one packet, the same for the whole cluster.

    Few on slow links, as a packet is never overtaken; many on fast ones, as each costs processor
    time. At most what fits the 64 KB of a packet.
    """
    frames = int(slowest_bytes_per_s * _PACKET_S / FRAME_BYTES)
    return min(_MAX_PACKET_FRAMES, max(_MIN_PACKET_FRAMES, frames))


def shape_for(rate_bytes_per_s: float, packet_frames: int) -> Shape:
    """Derive the shape of a link from its current rate.

    The bucket outlasts a late timer on a busy machine: a small constant one would throttle a fast
    link, a large one let a slow link exceed its rate. It always holds a whole packet, and a
    spare frame for the kernel's rounding: a packet that was queued before a rate change and fits no
    more would block the link for ever.

    The ingress queue bounds how long a small message waits behind bulk data; on slow links it still
    holds four frames of each of eight senders, as TCP with less lives from timeout to timeout. The
    egress queue is roomy: the kernel holds each socket's share of it to a few frames (tcp.py), so
    that it never gets long, and a loss there would only be harm.
    """
    rate = max(1, round(rate_bytes_per_s))
    ingress = max(_MIN_INGRESS_QUEUE_FRAMES * FRAME_BYTES, round(rate * _INGRESS_QUEUE_S))
    return Shape(
        rate_bytes_per_s=rate,
        burst_bytes=max((packet_frames + 1) * FRAME_BYTES, round(rate * _BURST_S)),
        egress_queue_bytes=_EGRESS_QUEUE_FACTOR * ingress,
        ingress_queue_bytes=ingress,
    )
