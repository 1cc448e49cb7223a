"""How close the transport comes to the rate of the shaped links; results/bench/transport.json.

The file also holds what conf/cluster takes for the virtual clock: message_s,
startup_s and share_spread.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.report import BenchFailed, claim, report
from experiments.mpi_library import library
from experiments.mpiexec import run_in_bubble
from experiments.overrides import validate
from experiments.plan import chunk_bytes

RATES_BYTES_PER_S = (3.125e6, 12.5e6)
SIZE_BYTES = 4_000_000
INCAST_SENDERS = 8
REPETITIONS = 3
HOSTS = ("receiver", *(f"w{i}" for i in range(1, 10)))
CLAIMED_SHARE = 0.9
CLAIMED_IDLE_CORES = 0.25
LONE_BYTES = 312_000
"""An update of the laptop's ResNet-8."""

GOODPUT = 1448 / 1514
"""Share of a shaped link's bytes that is payload: no transport can do better."""


def main() -> int:
    """Measure, write, print; exit status 1 where a claim does not hold."""
    cases = [measure_links(rate) for rate in RATES_BYTES_PER_S]
    claims = [one for case in cases for one in claims_of(case)]
    return report("transport", {"cases": cases, "claims": claims})


def measure_links(rate: float) -> dict[str, object]:
    """What the transport makes of links of so many bytes/s, and what the virtual clock takes."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        program = ["-m", "experiments.bench.transport_rank", folder, str(_chunk_bytes(rate))]
        run_in_bubble(out, dict.fromkeys(HOSTS, rate), [], library("openmpi"), program)
        measured = json.loads((out / "transport.json").read_text())
    startup_s = _startup_s(measured, rate)
    return {
        "bandwidth_bytes_per_s": rate,
        "size_bytes": SIZE_BYTES,
        **measured,
        "startup_s": startup_s,
        "share_spread": share_spread(measured["meeting_s"], LONE_BYTES / (rate * GOODPUT)),
    }


def _startup_s(measured: dict[str, Any], rate: float) -> float:
    """From the order to send until bytes flow at full rate; the order itself took a message."""
    alone_s = statistics.median(measured["lone_s"]) - measured["message_s"]
    return float(alone_s - LONE_BYTES / (rate * GOODPUT))


def share_spread(meetings_s: Sequence[Sequence[float]], alone_s: float) -> float:
    """Standard deviation of log(share) within meetings of equal transfers at one link.

    Each of `meetings_s` lists, in order, when its transfers came; one alone takes `alone_s`. With
    shares as weights w, transfer i has come when the link has served 1/w_i to a weight of one:
    between two arrivals it has served their gap over the weights still there. So the last gap
    gives the last but one weight, and so on. Meetings in which the link idled, so that no weights
    explain the gaps, are left out; BenchFailed where none is left.
    """
    found = [served for arrived_s in meetings_s if (served := _served(arrived_s, alone_s))]
    if not found:
        raise BenchFailed(f"transport: in none of {len(meetings_s)} meetings was the link busy")
    variances = [np.var(np.log(served), ddof=1) for served in found]
    return float(np.sqrt(np.mean(variances)))


def _served(arrived_s: Sequence[float], alone_s: float) -> list[float]:
    """1/w of each transfer, the last one's as 1 and first; empty where there is no such w."""
    served = [1.0]
    for gap_s in reversed(np.diff(arrived_s)):
        served.append(served[-1] - float(gap_s) / alone_s / sum(1 / level for level in served))
        if served[-1] <= 0:
            return []
    return served


def _chunk_bytes(rate: float) -> int:
    """As a run on such links has it."""
    (config,) = validate([f"cluster.bandwidth_bytes_per_s={rate}"], multirun=False)
    return chunk_bytes(config)


def claims_of(case: dict[str, object]) -> list[dict[str, object]]:
    """Shares of the rate that are reached, and what idle ranks cost."""
    rate = case["bandwidth_bytes_per_s"]
    assert isinstance(rate, float)
    at = f"at {rate * 8 / 1e6:.0f} Mbit/s"
    pair = SIZE_BYTES / statistics.median(_seconds(case, "pair_s")) / rate
    incast = INCAST_SENDERS * SIZE_BYTES / statistics.median(_seconds(case, "incast_s")) / rate
    idle = case["idle_cores"]
    assert isinstance(idle, float)
    return [
        _share(f"4 MB between two hosts {at}, share of the shaped rate", pair),
        _share(f"{INCAST_SENDERS} senders of 4 MB to one {at}, share of the shaped rate", incast),
        claim(
            f"{len(HOSTS)} idle ranks {at}, cores",
            idle,
            f"below {CLAIMED_IDLE_CORES}",
            idle < CLAIMED_IDLE_CORES,
        ),
    ]


def _share(what: str, ratio: float) -> dict[str, object]:
    allowed = f"at least {CLAIMED_SHARE}; payload bound {GOODPUT:.3f}"
    return claim(what, ratio, allowed, ratio >= CLAIMED_SHARE)


def _seconds(case: dict[str, object], key: str) -> list[float]:
    values = case[key]
    assert isinstance(values, list)
    return values
