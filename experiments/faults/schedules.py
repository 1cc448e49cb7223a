"""Which faults come when, under which policy: a function of the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from mlfabric.engines.plan import Fault
from mlfabric.policies.base import Replication

WORKERS = 6
SECONDS = 17.0
QUIET_S = 2.0
"""No fault comes before the run is well under way, nor so late that nobody could recover."""

APART_S = 0.05
"""Between two faults [ours]: the run has recovered from the first, or just not."""

POLICIES = ("mlfabric_a", "mlfabric_s", "mlfabric_ssp")
ALONE = ("async_ps", "async_bounded", "ssp", "sync_ps", "sync_backup")
"""Policies whose coordinator is beside the server: they do not outlive it."""


@dataclass(frozen=True)
class Schedule:
    """One randomised run; hosts are w1, w2, …, server, replica."""

    seed: int
    policy: str
    aggregation: str
    delay_bound: int | None
    replication: Replication | None
    faults: tuple[Fault, ...]
    slow: tuple[tuple[str, float], ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """In the order of ranks."""
        workers = tuple(f"w{number + 1}" for number in range(WORKERS))
        apart = () if self.replication is None else (self.replication.host,)
        return ("scheduler", "server", *workers, *apart)

    @property
    def label(self) -> str:
        """What tells it from others."""
        kind = "none" if self.replication is None else self.replication.kind
        told = "; ".join(
            f"{fault.kind} {fault.host or 'an aggregator'} at {fault.at_s:.2f} s"
            for fault in self.faults
        )
        return f"seed {self.seed}: {self.policy} {self.aggregation}, replication {kind}: {told}"


def draw(seed: int) -> Schedule:
    """One to three faults, at times apart, that the run is to survive."""
    rng = random.Random(seed)
    policy = rng.choice(POLICIES if rng.random() < 0.75 else ALONE)
    planned = policy in POLICIES
    replication = (
        _replication(rng) if planned else rng.choice((None, Replication("replica", "chain")))
    )
    aggregation = rng.choice(("none", "paper", "pipelined")) if planned else "none"
    return Schedule(
        seed,
        policy,
        aggregation,
        rng.choice((None, 3, 10)) if policy == "mlfabric_a" else None,
        replication,
        _faults(rng, replication, sums=aggregation != "none", outlives_server=planned),
        _slow(rng, replication),
    )


def _slow(rng: random.Random, replication: Replication | None) -> tuple[tuple[str, float], ...]:
    """Two workers behind slow links; at times the server or the replica, too."""
    hosts = [f"w{number}" for number in rng.sample(range(1, WORKERS + 1), 2)]
    slow = [(host, rng.choice((0.1, 0.25, 0.5))) for host in hosts]
    if rng.random() < 0.3:
        slow.append((rng.choice(("server", "replica")) if replication else "server", 0.4))
    return tuple(slow)


def _replication(rng: random.Random) -> Replication | None:
    kind = rng.choice(("none", "chain", "bounded", "bounded"))
    if kind == "none":
        return None
    if kind == "chain":
        return Replication("replica", "chain")
    return Replication("replica", "bounded", None, rng.choice((0.5, 1.0, 4.0)))


def _faults(
    rng: random.Random, replication: Replication | None, *, sums: bool, outlives_server: bool
) -> tuple[Fault, ...]:
    """Whoever is left when a fault comes can go on without its victim."""
    victims = [f"w{number}" for number in range(1, WORKERS + 1)]
    others: list[str | None] = [None] if sums else []
    others += ["replica"] if replication else []
    others += ["server"] if replication and outlives_server else []
    found, at_s = [], QUIET_S + rng.uniform(0.0, 2.0)
    for _ in range(rng.choice((1, 1, 2, 3))):
        if rng.random() < 0.15:
            found.append(Fault("partition", at_s, rng.choice(victims), rng.uniform(0.2, 1.0)))
        else:
            host = rng.choice(others if others and rng.random() < 0.6 else [*victims])
            found.append(Fault("kill", at_s, host))
            if host in ("server", "replica"):  # the one that is left has no second
                others = [other for other in others if other is None]
            elif host is not None:
                victims.remove(host)
        at_s += APART_S + rng.uniform(0.0, 2.0)
    return tuple(found)
