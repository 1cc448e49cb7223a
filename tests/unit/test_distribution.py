"""Model trees: few copies leave the server, slow receivers hang at the leaves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlfabric.planning.distribution import plan_tree
from mlfabric.topology import Topology
from tests.support.batches import SERVER, assert_behind, batches, bytes_of, make_batch

CHUNK = 1


def tree(rates, topology=None, n_bytes=10):
    """Links of `rates` bytes/s both ways; a model of 10 bytes in chunks of one."""
    batch = make_batch(rates, [], topology or Topology())
    receivers = [host for host in batch.residual.network.hosts if host != SERVER]
    return plan_tree(SERVER, receivers, batch.residual, n_bytes, CHUNK, 0.0)


def shape(edges):
    return [(edge.src, edge.dst) for edge in edges]


def test_equal_links_make_a_chain_with_one_copy_out_of_the_server():
    """10 bytes at 10 bytes/s; each hop lags by one chunk, 0.1 s."""
    edges = tree({SERVER: 10.0, "w1": 10.0, "w2": 10.0, "w3": 10.0})
    assert shape(edges) == [(SERVER, "w1"), ("w1", "w2"), ("w2", "w3")]
    assert [edge.end_s for edge in edges] == pytest.approx([1.0, 1.1, 1.2])


def test_a_slow_receiver_comes_last_and_passes_nothing_on():
    edges = tree({SERVER: 10.0, "slow": 1.0, "w1": 10.0, "w2": 10.0})
    assert shape(edges)[:2] == [(SERVER, "w1"), ("w1", "w2")]
    assert edges[2].dst == "slow"
    assert all(src != "slow" for src, _ in shape(edges))


def test_a_forwarder_with_a_slow_way_out_is_passed_by():
    """w1 could pass on 1 byte/s only; the server sends two copies at once."""
    batch = make_batch({SERVER: 20.0, "w1": 10.0, "w2": 10.0}, [])
    batch.residual.reserve("w1", SERVER, 0.0, 90.0)  # w1's way out is taken for 9 s
    edges = plan_tree(SERVER, ["w1", "w2"], batch.residual, 10, CHUNK, 0.0)
    assert shape(edges) == [(SERVER, "w1"), (SERVER, "w2")]


def test_one_copy_enters_a_rack_behind_a_narrow_uplink():
    """The uplink carries 1 byte/s: w1 has it all at 10 s; w2 gets it from w1, 0.1 s later."""
    above = Topology({"w1": "r", "w2": "r"})
    edges = tree({SERVER: 10.0, "w1": 10.0, "w2": 10.0, "r": 1.0}, above)
    assert shape(edges) == [(SERVER, "w1"), ("w1", "w2")]
    assert [edge.end_s for edge in edges] == pytest.approx([10.0, 10.1])


@given(batches(), st.integers(1, 30), st.integers(1, 8))
def test_every_receiver_gets_it_once_within_capacity_and_never_ahead_of_its_parent(
    batch, n_bytes, chunk_bytes
):
    receivers = [host for host in batch.residual.network.hosts if host != SERVER]
    edges = plan_tree(SERVER, receivers, batch.residual, n_bytes, chunk_bytes, batch.now)
    assert sorted(edge.dst for edge in edges) == sorted(receivers)
    bringing = {edge.dst: edge for edge in edges}
    for edge in edges:
        assert bytes_of(edge) == pytest.approx(n_bytes, rel=1e-6)
        if edge.src != SERVER:
            assert_behind(edge, bringing[edge.src], chunk_bytes)
    assert_fits(batch, edges)


def assert_fits(batch, edges):
    for link, free in batch.residual.profiles().items():
        path = batch.residual.network.topology.path
        pieces = [p for e in edges if link in path(e.src, e.dst) for p in e.pieces]
        for instant in {p.start for p in pieces}:
            used = sum(p.bytes_per_s for p in pieces if p.start <= instant < p.end)
            assert used <= free.rate_at(instant) * (1 + 1e-6)
