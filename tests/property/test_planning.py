"""What must hold of every plan."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mlfabric.events import Update
from mlfabric.planning.aggregation import Site, plan_direct, plan_groups
from mlfabric.planning.ordering import order
from mlfabric.planning.profile import Profile
from mlfabric.planning.residual import Residual
from mlfabric.topology import Link, path

RATES = st.floats(0.5, 10.0)
WORKERS = [f"w{i}" for i in range(6)]


@st.composite
def profiles(draw):
    cuts = sorted(draw(st.sets(st.floats(0.1, 20.0), max_size=3)))
    rates = draw(st.lists(RATES, min_size=len(cuts) + 1, max_size=len(cuts) + 1))
    return Profile((0.0, *cuts), tuple(rates))


@st.composite
def batches(draw):
    hosts = ["server", *WORKERS]
    links = {Link(h, way): draw(profiles()) for h in hosts for way in ("egress", "ingress")}
    count = draw(st.integers(1, 6))
    updates = [
        Update(
            f"u{i}",
            WORKERS[i],
            draw(st.integers(1, 20)),
            draw(st.integers(0, 5)),
            draw(st.floats(0, 3)),
        )
        for i in range(count)
    ]
    return Residual(links), updates


def sites(draw_busy=0.0, best_fit=False):
    return Site("server", tuple(reversed(WORKERS)), best_fit, 20, 0.0, draw_busy)


@given(batches(), st.integers(0, 8))
def test_every_update_is_kept_or_dropped_once_within_the_bound(batch, bound):
    residual, updates = batch
    ordering = order(updates, residual, "server", 6, bound, 0.0)
    names = [u.id for u in ordering.kept] + [d.update.id for d in ordering.dropped]
    assert sorted(names) == sorted(u.id for u in updates)
    assert all(6 + place - u.version <= bound for place, u in enumerate(ordering.kept))
    assert all(d.delay > bound for d in ordering.dropped)


@given(batches(), st.booleans(), st.floats(0, 10))
@settings(max_examples=60)
def test_no_link_is_ever_over_its_capacity(batch, best_fit, busy):
    residual, updates = batch
    plan = plan_groups(updates, residual, sites(busy, best_fit))
    transfers = [t for g in plan.groups for t in g.transfers]
    instants = sorted({p.start for t in transfers for p in t.pieces})
    for link, profile in residual.links.items():
        for instant in instants:
            used = sum(
                p.bytes_per_s
                for t in transfers
                if link in path(t.src, t.dst)
                for p in t.pieces
                if p.start <= instant < p.end
            )
            assert used <= profile.rate_at(instant) * (1 + 1e-6)


@given(batches(), st.booleans())
@settings(max_examples=60)
def test_aggregation_is_never_worse_and_a_sum_waits_for_its_members(batch, best_fit):
    residual, updates = batch
    plan = plan_groups(updates, residual, sites(best_fit=best_fit))
    assert sorted(u.id for g in plan.groups for u in g.members) == sorted(u.id for u in updates)
    assert plan.mean_completion <= plan_direct(updates, residual, sites()).mean_completion + 1e-9
    for group in plan.groups:
        *collecting, crossing = group.transfers
        ready = [t.pieces[-1].end for t in collecting] + [u.ready_s for u in group.members]
        assert crossing.pieces[0].start >= max(ready) - 1e-9
        assert len(group.members) == 1 or group.via is not None


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8))
def test_time_sharing_is_never_later_than_fair_sharing(sizes):
    """Through one bottleneck of 1 byte/s: the last end is equal, the mean end no later (Fig. 1)."""
    hosts = {Link(f"w{i}", "egress"): Profile.constant(100.0) for i in range(len(sizes))}
    residual = Residual({**hosts, Link("server", "ingress"): Profile.constant(1.0)})
    updates = [Update(f"u{i}", f"w{i}", size, 0, 0.0) for i, size in enumerate(sizes)]
    kept = order(updates, residual, "server", 0, None, 0.0).kept
    ends = [
        g.commit_s
        for g in plan_direct(kept, residual, Site("server", (), False, 1, 0.0, 0.0)).groups
    ]
    fair = [sum(min(size, other) for other in sizes) for size in sizes]
    assert max(ends) <= max(fair) + 1e-6
    assert sum(ends) <= sum(fair) + 1e-6
