"""The paper's figures 4 to 6 as small cases worked out by hand."""

from __future__ import annotations

import pytest

from mlfabric.events import Update
from mlfabric.planning.aggregation import Site, plan_groups
from mlfabric.planning.ordering import order
from mlfabric.planning.profile import Profile
from mlfabric.planning.residual import Residual
from mlfabric.topology import Link

MB = 1_000_000.0
MBIT = MB / 8


def cluster(rates: dict[str, float], **profiles: Profile) -> Residual:
    """Both directions of every host at a constant rate; `profiles` replace egress links."""
    links = {
        Link(h, way): Profile.constant(r) for h, r in rates.items() for way in ("egress", "ingress")
    }
    return Residual(links | {Link(host, "egress"): profile for host, profile in profiles.items()})


def test_fig4_thirty_megabytes_end_at_seven():
    """10 MB/s for 1 s, 2 MB/s for 4 s, 6 MB/s after: 10 + 8 + 12 = 30 MB at t = 7."""
    profile = Profile((0.0, 1.0, 5.0), (10 * MB, 2 * MB, 6 * MB))
    before = cluster({"w1": 10 * MB, "server": 100 * MB}, w1=profile)
    assert before.finish("w1", "server", 0.0, 30 * MB) == pytest.approx(7.0)
    after = before.minus("w1", "server", before.pieces("w1", "server", 0.0, 30 * MB))
    assert after.links[Link("w1", "egress")] == Profile((0.0, 7.0), (0.0, 6 * MB))
    assert after.links[Link("server", "ingress")].rate_at(6.0) == pytest.approx(94 * MB)


def test_fig5_an_update_behind_a_slow_link_is_dropped_before_it_is_sent():
    """g1 needs 10 s behind 10 Mbit/s; the others pass it, and its delay would exceed the bound."""
    rates = {"server": 100 * MBIT, "w1": 10 * MBIT, "w2": 100 * MBIT, "w3": 100 * MBIT}
    residual = cluster(rates)
    size = int(10 * 10 * MBIT)
    assert residual.finish("w1", "server", 0.0, size) == pytest.approx(10.0)
    gradients = [Update(f"g{i}", f"w{i}", size, 5, 0.0) for i in (1, 2, 3)]
    ordering = order(gradients, residual, "server", 5, 1, 0.0)
    assert [u.id for u in ordering.kept] == ["g2", "g3"]
    assert [(d.update.id, d.delay) for d in ordering.dropped] == [("g1", 2)]


def test_fig6_groups():
    """G1 = u1 u2 u3 direct, G2 = u4 u5 summed, u6 opens G3.

    Equal links of 1 byte/s. u1..u3 (2 bytes each) take the server's until t = 6. At an idle host
    u4 and u5 (3 bytes each) are collected by t = 6; u6 (3 bytes) would end at 9.
    """
    hosts = dict.fromkeys(("server", "idle1", "w1", "w2", "w3", "w4", "w5", "w6"), 1.0)
    sizes = {"u1": 2, "u2": 2, "u3": 2, "u4": 3, "u5": 3, "u6": 3}
    updates = [Update(u, f"w{u[1:]}", size, 0, 0.0) for u, size in sizes.items()]
    site = Site("server", ("idle1",), False, 3, 0.0, 0.0)
    plan = plan_groups(updates, cluster(hosts), site)
    assert [([u.id for u in g.members], g.via) for g in plan.groups] == [
        (["u1"], None),
        (["u2"], None),
        (["u3"], None),
        (["u4", "u5"], "idle1"),
        (["u6"], None),
    ]
    assert [g.commit_s for g in plan.groups] == pytest.approx([2.0, 4.0, 6.0, 9.0, 12.0])
    assert plan.mean_completion == pytest.approx((2 + 4 + 6 + 9 + 9 + 12) / 6)


def test_ties_keep_the_input_order():
    rates = {"server": 1.0, "a": 1.0, "b": 1.0, "c": 1.0}
    updates = [Update(n, n, 1, 0, 0.0) for n in ("c", "a", "b")]
    assert [u.id for u in order(updates, cluster(rates), "server", 0, None, 0.0).kept] == [
        "c",
        "a",
        "b",
    ]
