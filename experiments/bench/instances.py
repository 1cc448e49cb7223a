"""Random batches: small ones on a grid of slots, in families of difficulty; large ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from mlfabric.events import Update
from mlfabric.planning.batch import Batch
from mlfabric.planning.profile import Profile
from mlfabric.planning.residual import Network
from mlfabric.topology import Link, Topology

SLOT_S = 1.0
FULL_BYTES_PER_S = 1_000_000
"""Rate of a link that nothing slows down: it carries one unit of size a slot."""
MOST_UPDATES = 5
MOST_AGGREGATORS = 2


@dataclass(frozen=True)
class Draw:
    """What a family varies: sizes in slots at the full rate, ready times, rates of hosts, racks.

    `rates` are shares of the full rate; the server's own link is free from `free_s` on.
    """

    sizes: tuple[int, ...]
    ready_s: tuple[int, ...]
    rates: Mapping[str, float] = field(default_factory=dict)
    free_s: int = 0
    racked: bool = False


def draw(family: str, index: int, attempt: int = 0) -> Batch:
    """One batch of a family; the same arguments give the same batch."""
    rng = random.Random(f"{family}/{index}/{attempt}")
    n = rng.randint(2, MOST_UPDATES)
    workers = tuple(f"w{i + 1}" for i in range(n))
    hosts = rng.sample([*workers, "a1", "a2"], rng.randint(1, MOST_AGGREGATORS))
    return _batch(FAMILIES[family](rng, workers), workers, tuple(hosts))


def _equal(rng: random.Random, workers: tuple[str, ...]) -> Draw:
    return Draw((rng.randint(1, 3),) * len(workers), (0,) * len(workers))


def _mixed_sizes(rng: random.Random, workers: tuple[str, ...]) -> Draw:
    return Draw(tuple(rng.randint(1, 4) for _ in workers), (0,) * len(workers))


def _slow_workers(rng: random.Random, workers: tuple[str, ...]) -> Draw:
    slow = rng.sample(workers, rng.randint(1, len(workers) - 1))
    size = rng.randint(1, 2)
    return Draw((size,) * len(workers), (0,) * len(workers), dict.fromkeys(slow, 0.5))


def _slow_server(rng: random.Random, workers: tuple[str, ...]) -> Draw:
    return Draw(tuple(rng.randint(1, 2) for _ in workers), (0,) * len(workers), {"s": 0.5})


def _busy_server(rng: random.Random, workers: tuple[str, ...]) -> Draw:
    sizes = tuple(rng.randint(1, 3) for _ in workers)
    return Draw(sizes, (0,) * len(workers), free_s=rng.randint(1, 6))


def _staggered(rng: random.Random, workers: tuple[str, ...]) -> Draw:
    size = rng.randint(1, 3)
    return Draw((size,) * len(workers), tuple(rng.randint(0, 5) for _ in workers))


def _racks(rng: random.Random, workers: tuple[str, ...]) -> Draw:
    return Draw(tuple(rng.randint(1, 3) for _ in workers), (0,) * len(workers), racked=True)


FAMILIES: dict[str, Callable[[random.Random, tuple[str, ...]], Draw]] = {
    "equal": _equal,
    "mixed_sizes": _mixed_sizes,
    "slow_workers": _slow_workers,
    "slow_server": _slow_server,
    "busy_server": _busy_server,
    "staggered": _staggered,
    "racks": _racks,
}


def _batch(drawn: Draw, workers: tuple[str, ...], aggregators: tuple[str, ...]) -> Batch:
    hosts = tuple(dict.fromkeys(("s", *workers, *aggregators)))
    # Half of the workers and the first idle host share an uplink of one host's rate.
    rack = {*workers[::2], "a1"} if drawn.racked else set()
    network = Network(hosts, Topology({host: "r" for host in hosts if host in rack}))
    links = {
        link: Profile.constant(FULL_BYTES_PER_S * drawn.rates.get(link.host, 1.0))
        for link in network.link_row
    }
    if drawn.free_s:
        free = Profile((0.0, float(drawn.free_s)), (0.0, float(FULL_BYTES_PER_S)))
        links[Link("s", "ingress")] = free
    updates = tuple(
        Update(f"u{i + 1}", worker, size * FULL_BYTES_PER_S, 0, float(ready))
        for i, (worker, size, ready) in enumerate(
            zip(workers, drawn.sizes, drawn.ready_s, strict=True)
        )
    )
    return Batch(
        updates,
        network.residual(links),
        "s",
        aggregators=aggregators,
        reuse=False,
        busy_until_s=float(drawn.free_s),
    )


NIC_BYTES_PER_S = 1.25e9
"""10 Gbit/s, as in cluster=paper."""


def cluster(n: int, aggregators: int, seed: int) -> Batch:
    """A batch of a large cluster: sizes, ready times, slow links and changing ones are drawn.

    One worker in twenty has a tenth of the rate (as NS1), every fifth link changes once.
    """
    rng = random.Random(f"cluster/{n}/{aggregators}/{seed}")
    workers = tuple(f"w{i + 1}" for i in range(n))
    network = Network(("s", *workers))
    share = {host: 0.1 if rng.random() < 0.05 else 1.0 for host in workers} | {"s": 1.0}
    links = {link: _link(rng, share[link.host] * NIC_BYTES_PER_S) for link in network.link_row}
    updates = tuple(
        Update(f"u{i}", worker, rng.randint(20, 102) * 10**6, rng.randrange(n), rng.random() * 0.3)
        for i, worker in enumerate(workers)
    )
    return Batch(
        updates,
        network.residual(links),
        "s",
        version=n,
        delay_bound=2 * n,
        aggregators=workers[:aggregators],
    )


def _link(rng: random.Random, bytes_per_s: float) -> Profile:
    if rng.random() < 0.8:
        return Profile.constant(bytes_per_s)
    return Profile((0.0, rng.random()), (bytes_per_s, bytes_per_s * rng.choice((0.25, 0.5, 1.0))))


def pressed(n: int, seed: int) -> Batch:
    """A batch whose delay bound is tight: versions are drawn so that some have no slack left."""
    rng = random.Random(f"pressed/{n}/{seed}")
    batch = cluster(n, 0, seed)
    updates = tuple(update._replace(version=rng.randrange(n)) for update in batch.updates)
    return replace(batch, updates=updates, delay_bound=n, aggregation="none")
