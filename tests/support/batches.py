"""Batches to plan, made by hand or drawn, and what their links carry."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from mlfabric.events import Update
from mlfabric.planning.batch import Batch
from mlfabric.planning.profile import Profile
from mlfabric.planning.residual import Network
from mlfabric.topology import BIG_SWITCH, Topology

SERVER, REPLICA = "s", "r"
RATES, NORMS = st.floats(0.5, 10.0), st.floats(0.0, 2.0)
PAUSES = st.just(0.0)


def make_batch(rates, updates, topology=BIG_SWITCH, **settings):
    """`rates`: bytes/s, or a profile, of both directions of every host and switch."""
    hosts = tuple(name for name in rates if name not in topology.above.values())
    network = Network(hosts, topology)
    links = {
        link: rate if isinstance(rate, Profile) else Profile.constant(float(rate))
        for link in network.link_row
        for rate in [rates[link.host]]
    }
    return Batch(tuple(updates), network.residual(links), SERVER, **settings)


@st.composite
def profiles(draw):
    """Up to three changes of rate within 20 s, pauses among them, but for the last rate."""
    cuts = sorted(draw(st.sets(st.integers(1, 20), max_size=3)))
    size = len(cuts)
    rates = draw(st.lists(st.one_of(RATES, RATES, RATES, PAUSES), min_size=size, max_size=size))
    return Profile((0.0, *map(float, cuts)), (*rates, draw(RATES)))


@st.composite
def batches(draw, aggregations=("none",)):
    """Up to six updates of six workers, one or two racks or none, idle hosts that may sum."""
    workers = [f"w{i}" for i in range(6)]
    hosts = [SERVER, REPLICA, *workers, "idle1", "idle2"]
    racks = draw(st.sampled_from([(), ("rack1",), ("rack1", "rack2")]))
    above = {h: draw(st.sampled_from(racks)) for h in hosts if racks and draw(st.booleans())}
    rates = {name: draw(profiles()) for name in (*hosts, *racks)}
    updates = [
        Update(
            f"u{i}",
            draw(st.sampled_from(workers)),
            draw(st.integers(1, 20)),
            version=draw(st.integers(0, 5)),
            ready_s=float(draw(st.integers(0, 8))),
            norm=draw(NORMS),
        )
        for i in range(draw(st.integers(1, 6)))
    ]
    return make_batch(
        rates,
        updates,
        Topology(above),
        version=6,
        delay_bound=draw(st.none() | st.integers(0, 9)),
        aggregation=draw(st.sampled_from(aggregations)),
        aggregators=tuple(
            draw(st.permutations(["idle1", "idle2", "w5"]))[: draw(st.integers(0, 3))]
        ),
        best_fit=draw(st.booleans()),
        reuse=draw(st.booleans()),
        chunk_bytes=draw(st.integers(1, 8)),
    )


def carried(transfers, topology):
    """Pieces of all transfers over each link."""
    pieces = {}
    for transfer in transfers:
        for link in topology.path(transfer.src, transfer.dst):
            pieces.setdefault(link, []).extend(transfer.pieces)
    return pieces


def rate_of(pieces, instant):
    """Bytes/s of all pieces together at an instant."""
    return sum(p.bytes_per_s for p in pieces if p.start <= instant < p.end)


def assert_within_capacity(batch, transfers, left):
    """Nothing is carried beyond what was free, and `left` is exactly what remains of it."""
    pieces = carried(transfers, batch.residual.network.topology)
    for link, free in batch.residual.profiles().items():
        taken, rest = pieces.get(link, []), left.profile(link)
        for instant in {*free.times, *rest.times, *(p.start for p in taken), 1e6}:
            used, limit = rate_of(taken, instant), free.rate_at(instant)
            assert used <= limit * (1 + 1e-6), (link, instant)
            assert abs(limit - used - rest.rate_at(instant)) <= 1e-6 * limit, (link, instant)


def bytes_of(transfer):
    """What a transfer's pieces carry."""
    return sum(p.bytes_per_s * (p.end - p.start) for p in transfer.pieces)


def shifted(batch, seconds):
    """The same batch at another time."""
    residual = batch.residual.network.residual(
        {
            link: Profile(tuple(time + seconds for time in profile.times), profile.rates)
            for link, profile in batch.residual.profiles().items()
        }
    )
    updates = tuple(u._replace(ready_s=u.ready_s + seconds) for u in batch.updates)
    return replace(
        batch,
        updates=updates,
        residual=residual,
        now=batch.now + seconds,
        busy_until_s=batch.busy_until_s + seconds,
    )


def assert_behind(out, into, chunk_bytes):
    """`out` passes on no share of a sum before a whole chunk of `into` with it has arrived."""
    total_out, total_in = bytes_of(out), bytes_of(into)
    for instant in {t for p in (*out.pieces, *into.pieces) for t in (p.start, p.end)}:
        sent, come = (moved(t.pieces, instant) for t in (out, into))
        whole = come if come >= total_in * (1 - 1e-9) else max(come - chunk_bytes, 0.0)
        assert sent / total_out <= whole / total_in + 1e-6


def moved(pieces, instant):
    """Bytes that pieces have carried by then."""
    return sum(p.bytes_per_s * (min(p.end, instant) - p.start) for p in pieces if p.start < instant)
