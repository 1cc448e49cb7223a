"""The scheduler on a fluid network: nothing lost, nothing twice, every delay within its bound."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mlfabric.policies import module
from mlfabric.policies.base import PolicyContext
from tests.support.fluid import Fluid

OPTIONS = {"aggregators": None, "bandwidth": "measured", "ordering": "shortest"}


def fluid(policy, n, rates, compute, n_bytes=300_000, spread=0.0, **options):
    workers = tuple(f"w{i + 1}" for i in range(n))
    line = 3.0e6
    context = PolicyContext(
        "server",
        workers,
        dict.fromkeys(("server", *workers), line),
        n_bytes,
        32_768,
        1.5,
        7,
        OPTIONS | options,
    )
    real = {"server": line, **{w: line * rates[i] for i, w in enumerate(workers)}}
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
    )


@given(
    n=st.integers(1, 6),
    rates=st.lists(st.sampled_from([1.0, 1.0, 0.5, 0.1]), min_size=6, max_size=6),
    compute=st.lists(st.floats(0.02, 0.8), min_size=6, max_size=6),
    bound=st.sampled_from([None, 0, 1, 3, 10]),
    spread=st.sampled_from([0.0, 0.95]),
    aggregation=st.sampled_from(["none", "paper"]),
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


def test_the_same_seed_gives_the_same_actions():
    def log():
        network = fluid(
            "mlfabric_a",
            5,
            [1.0, 0.1, 1.0, 0.5, 1.0, 1.0],
            [0.1, 0.2, 0.3, 0.1, 0.1, 0.1],
            delay_bound=None,
            aggregation="paper",
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
    def applied(aggregation):
        network = fluid(
            "mlfabric_a",
            6,
            [1.0] * 6,
            [0.05] * 6,
            delay_bound=None,
            aggregation=aggregation,
            aggregator_choice="random",
        )
        network.run(20.0)
        return network.version

    assert applied("paper") > 1.3 * applied("none")
