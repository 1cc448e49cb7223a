"""Model trees: few copies leave the server, slow receivers hang at the leaves."""

from __future__ import annotations

from mlfabric.planning.distribution import plan_tree


def tree(ingress, egress=None, hop=0.01):
    egress = egress or {"server": 10.0, **dict.fromkeys(ingress, 10.0)}
    return [(e.src, e.dst) for e in plan_tree("server", list(ingress), egress, ingress, 10, hop)]


def test_equal_links_make_a_chain_with_one_copy_out_of_the_server():
    assert tree({"w1": 10.0, "w2": 10.0, "w3": 10.0}) == [
        ("server", "w1"),
        ("w1", "w2"),
        ("w2", "w3"),
    ]


def test_a_slow_receiver_comes_last_and_passes_nothing_on():
    edges = tree({"slow": 1.0, "w1": 10.0, "w2": 10.0})
    assert edges[:2] == [("server", "w1"), ("w1", "w2")]
    assert edges[2][1] == "slow"
    assert all(src != "slow" for src, _ in edges)


def test_a_busy_forwarder_is_passed_by():
    egress = {"server": 20.0, "w1": 0.0, "w2": 10.0}
    assert tree({"w1": 10.0, "w2": 10.0}, egress) == [("server", "w1"), ("server", "w2")]
