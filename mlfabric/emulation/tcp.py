"""TCP settings of an emulated host, chosen so that what a rank hands over is soon on the wire."""

from __future__ import annotations

from pathlib import Path

_NET = Path("/proc/sys/net")
_KERNEL_BUFFER_S = 0.005
_MIN_UNSENT_BYTES = 16 * 1024
_MIN_IN_QUEUE_BYTES = 8 * 1024
_SOCKET_BUFFERS = "4096 1048576 6291456"
_MIN_RETRANSMIT_US = 20_000


def tune(rate_bytes_per_s: float) -> None:
    """Set the calling thread's network namespace up for a host with this rate; raises OSError.

    A connection keeps about 5 ms of data unsent and 5 ms in the queue of the link, so that a small
    message never waits behind megabytes; an idle connection keeps its window; a process that is
    scheduled late finds room in the socket buffers; a loss costs about a queue's delay and not the
    wide-area default of 200 ms.
    """
    share_bytes = round(rate_bytes_per_s * _KERNEL_BUFFER_S)
    _write("ipv4/tcp_notsent_lowat", str(max(_MIN_UNSENT_BYTES, share_bytes)))
    _write_if_known("ipv4/tcp_limit_output_bytes", str(max(_MIN_IN_QUEUE_BYTES, share_bytes)))
    # Off: it would make segments of 64 KB on paths as short as ours, one of which fills a slow
    # link's queue.
    _write_if_known("ipv4/tcp_tso_rtt_log", "0")
    _write("ipv4/tcp_slow_start_after_idle", "0")
    _write("ipv4/tcp_wmem", _SOCKET_BUFFERS)
    _write("ipv4/tcp_rmem", _SOCKET_BUFFERS)
    _write_if_known("ipv4/tcp_rto_min_us", str(_MIN_RETRANSMIT_US))
    _write_if_known("ipv6/conf/default/disable_ipv6", "1")
    _write_if_known("ipv6/conf/all/disable_ipv6", "1")


def _write(name: str, value: str) -> None:
    (_NET / name).write_text(value)


def _write_if_known(name: str, value: str) -> None:
    """For settings that some kernels lack and that a run can do without."""
    if (_NET / name).exists():
        _write(name, value)
