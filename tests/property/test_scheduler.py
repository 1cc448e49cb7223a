"""The scheduler on a fluid network: nothing lost, nothing twice, every delay within its bound."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlfabric.policies import module
from mlfabric.policies.base import PolicyContext, Replication
from mlfabric.scheduler import Scheduler
from mlfabric.topology import BIG_SWITCH, Topology
from tests.support.fluid import Fluid
from tests.support.options import OPTIONS


def fluid(
    policy, n, rates, compute, n_bytes=300_000, spread=0.0, replication=None, norms=None, **options
):
    workers = tuple(f"w{i + 1}" for i in range(n))
    line = 3.0e6
    context = PolicyContext(
        "server",
        workers,
        dict.fromkeys(("server", "replica", *workers), line),
        n_bytes,
        32_768,
        1.5,
        7,
        OPTIONS | options,
        replication=replication,
    )
    real = {
        "server": line,
        "replica": line * rates[-1],
        **{w: line * rates[i] for i, w in enumerate(workers)},
    }
    computing = {w: compute[i] for i, w in enumerate(workers)}
    chosen = module(policy)
    return Fluid(
        chosen.build(context),
        real,
        workers,
        computing,
        n_bytes,
        spread,
        sends_at_once=chosen.SENDS_AT_ONCE,
        replica=None if replication is None else replication.host,
        norms=norms or (lambda name: 0.0),
    )


@given(
    n=st.integers(1, 6),
    rates=st.lists(st.sampled_from([1.0, 1.0, 0.5, 0.1]), min_size=6, max_size=6),
    compute=st.lists(st.floats(0.02, 0.8), min_size=6, max_size=6),
    bound=st.sampled_from([None, 0, 1, 3, 10]),
    spread=st.sampled_from([0.0, 0.95]),
    aggregation=st.sampled_from(["none", "paper", "pipelined"]),
    choice=st.sampled_from(["in_order", "random", "best_fit"]),
    ordering=st.sampled_from(["shortest", "delay_aware"]),
)
@settings(max_examples=60, deadline=None)
def test_invariants(n, rates, compute, bound, spread, aggregation, choice, ordering):
    network = fluid(
        "mlfabric_a",
        n,
        rates,
        compute,
        delay_bound=bound,
        aggregation=aggregation,
        aggregator_choice=choice,
        ordering=ordering,
        spread=spread,
    )
    network.run(8.0)
    assert all(delay >= 0 for delay in network.delays)
    assert bound is None or max(network.delays) <= bound
    applied = sum(fate == 1 for fate in network.fate.values())
    assert applied == network.version == network.coordinator.version
    unsettled = sum(fate == 0 for fate in network.fate.values())
    assert unsettled <= n  # one a worker at most is on its way
    assert applied > 0


@given(
    n=st.integers(1, 6),
    rates=st.lists(st.sampled_from([1.0, 1.0, 0.5, 0.1]), min_size=7, max_size=7),
    compute=st.lists(st.floats(0.02, 0.8), min_size=6, max_size=6),
    policy=st.sampled_from(["mlfabric_a", "mlfabric_a", "mlfabric_ssp", "mlfabric_s"]),
    delay_bound=st.sampled_from([None, 1, 3, 10]),
    bound=st.sampled_from([None, 0.5, 2.0, 5.0, 40.0]),
    rounds=st.sampled_from([0.3, 1.0, 4.0]),
    aggregation=st.sampled_from(["none", "paper", "pipelined"]),
    momentum=st.sampled_from([0.0, 0.9]),
)
@settings(max_examples=60, deadline=None)
def test_a_replica_follows_within_its_bound(
    n, rates, compute, policy, delay_bound, bound, rounds, aggregation, momentum
):
    """Whatever happens, the replica holds a prefix of the server's updates; `Fluid` checks the
    bound at every commit. Once nothing is pushed any more it has all."""
    network = fluid(
        policy,
        n,
        rates,
        compute,
        delay_bound=delay_bound if policy == "mlfabric_a" else None,
        aggregation=aggregation,
        momentum=momentum if policy == "mlfabric_s" else 0.0,
        replication=Replication("replica", "bounded", bound, rounds),
        norms=lambda name: 0.5 + 0.1 * (sum(name.encode()) % 11),
    )
    network.run(8.0)
    assert network.followed == network.committed[: len(network.followed)]
    assert len(network.lags) > 0
    assert network.version > 0
    silent = dict.fromkeys(network.workers, 1e6)
    network.compute_s.update(silent)
    network.run(60.0)
    assert network.followed == network.committed


@given(st.integers(2, 6))
@settings(max_examples=5, deadline=None)
def test_no_worker_starves_with_equal_links(n):
    network = fluid(
        "mlfabric_a",
        n,
        [1.0] * 6,
        [0.3] * 6,
        delay_bound=None,
        aggregation="paper",
        aggregator_choice="random",
    )
    network.run(20.0)
    served = [network.served[w] for w in network.workers]
    assert min(served) > 0.7 * max(served)


@pytest.mark.parametrize("aggregation", ["paper", "pipelined"])
def test_the_same_seed_gives_the_same_actions(aggregation):
    def log():
        network = fluid(
            "mlfabric_a",
            5,
            [1.0, 0.1, 1.0, 0.5, 1.0, 1.0],
            [0.1, 0.2, 0.3, 0.1, 0.1, 0.1],
            delay_bound=None,
            aggregation=aggregation,
            aggregator_choice="random",
        )
        network.run(10.0)
        return network.log

    assert log() == log()


def test_async_ps_applies_everything():
    network = fluid("async_ps", 6, [1.0, 0.1, 1.0, 0.5, 1.0, 1.0], [0.2] * 6)
    network.run(10.0)
    assert min(network.fate.values()) >= 0
    assert network.version == sum(network.fate.values()) > 0


def test_aggregation_raises_throughput_where_the_server_is_the_bottleneck():
    assert applied("paper", 6, 0.05) > 1.3 * applied("none", 6, 0.05)


def test_pipelined_sums_raise_it_further():
    """The server's link would be asked for ten times what it carries: n T / C = 10."""
    assert applied("pipelined", 30, 0.3) > 1.4 * applied("paper", 30, 0.3)


def applied(aggregation, n, compute_s):
    network = fluid(
        "mlfabric_a",
        n,
        [1.0] * n,
        [compute_s * (0.9 + 0.2 * i / n) for i in range(n)],
        delay_bound=None,
        aggregation=aggregation,
        aggregator_choice="random",
    )
    network.run(20.0)
    return network.version


class Scanning(Scheduler):
    """Tries every transfer that waits, in order of priority, after every event."""

    def _start_transfers(self, now):
        self._loads.freed.clear()
        actions = []
        for group in (*self._groups, *self._planned):
            for transfer in group.transfers:
                self._loads.route(transfer)
                if transfer in group.startable() and self._loads.fits(transfer):
                    self._dispatch.withdraw(transfer)
                    actions.append(self._started(transfer, now))
        return actions


RACKS = Topology({f"w{i}": "left" if i < 5 else "right" for i in range(1, 10)})


def log_of(kind, network, seconds, **changed):
    """What a scheduler of this kind does in the place of the network's own."""
    told = network.coordinator.settings
    line = {**told.line_bytes_per_s, "left": 3.0e6, "right": 6.0e6}
    network.coordinator = kind(replace(told, line_bytes_per_s=line, **changed))
    network.run(seconds)
    return network.log


@given(
    n=st.integers(2, 9),
    rates=st.lists(st.sampled_from([1.0, 1.0, 0.7, 0.5, 0.1]), min_size=9, max_size=9),
    compute=st.lists(st.floats(0.02, 0.8), min_size=9, max_size=9),
    bound=st.sampled_from([None, 1, 10]),
    aggregation=st.sampled_from(["none", "paper", "pipelined"]),
    topology=st.sampled_from([BIG_SWITCH, RACKS]),
)
@settings(max_examples=25, deadline=None)
def test_trying_only_where_room_was_gained_comes_to_trying_all(
    n, rates, compute, bound, aggregation, topology
):
    options = {"delay_bound": bound, "aggregation": aggregation, "aggregator_choice": "random"}
    one, other = (fluid("mlfabric_a", n, rates, compute, spread=0.5, **options) for _ in range(2))
    tried = log_of(Scheduler, one, 5.0, topology=topology)
    assert tried == log_of(Scanning, other, 5.0, topology=topology)


@pytest.mark.parametrize("aggregation", ["none", "paper", "pipelined"])
def test_with_many_workers_and_small_batches_nothing_is_lost_either(aggregation):
    """So many wait that plans hold only some of them, and are kept while little has changed."""
    n, options = 70, {"delay_bound": 100, "aggregation": aggregation}
    rates, compute = [1.0, 0.3, 1.0] * 24, [0.2 + 0.001 * i for i in range(n)]
    one, other = (
        fluid("mlfabric_a", n, rates, compute, aggregator_choice="random", **options)
        for _ in range(2)
    )
    tried = log_of(Scheduler, one, 4.0, batch_updates=30)
    assert tried == log_of(Scanning, other, 4.0, batch_updates=30)
    assert one.version == sum(fate == 1 for fate in one.fate.values()) > 30
    assert max(one.delays) <= 100
    assert sum(fate == 0 for fate in one.fate.values()) <= n
