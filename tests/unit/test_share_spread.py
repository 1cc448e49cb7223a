"""How unequally transfers share a link, told from when each has come; and what is done with it."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.bench import __main__ as bench
from experiments.bench.report import BenchFailed
from experiments.bench.transport import share_spread
from mlfabric.engines.virtual.fabric import Fabric
from mlfabric.engines.virtual.shares import Shares
from mlfabric.errors import SettingError
from mlfabric.topology import Link

LINK = Link("a", "ingress")


def meeting(weights):
    """When equal transfers of 2 s each have come that share a link as these weights."""
    fabric = Fabric({LINK: 1.0})
    for weight in weights:
        fabric.start((LINK,), 2.0, 0.0, weight=weight)
    arrived = []
    while fabric.next_s() < float("inf"):
        at = fabric.next_s()
        arrived += [at] * len(fabric.advance(at))
    return arrived


@pytest.mark.parametrize("spread", [0.0, 0.2, 0.6])
def test_the_spread_of_weights_is_found_again(spread):
    rng = np.random.default_rng(3)
    drawn = [np.exp(spread * rng.standard_normal(8)) for _ in range(5)]
    expected = np.sqrt(np.mean([np.var(np.log(weights), ddof=1) for weights in drawn]))
    found = share_spread([meeting(weights) for weights in drawn], 2.0)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_two_transfers_worked_out_by_hand():
    """Shares 3/4 and 1/4: the first has come at 4/3 of 1 s, both at 2 s."""
    arrived = [4 / 3, 2.0]
    assert meeting([3.0, 1.0]) == pytest.approx([2 * at for at in arrived])
    assert share_spread([arrived], 1.0) == pytest.approx(np.log(3) / np.sqrt(2))


def test_a_meeting_with_an_idle_link_is_left_out():
    idle = [1.0, 9.0]
    assert share_spread([idle, [4 / 3, 2.0]], 1.0) == pytest.approx(np.log(3) / np.sqrt(2))
    with pytest.raises(BenchFailed, match="in none of 1 meetings was the link busy"):
        share_spread([idle], 1.0)


def weights(seed, spread, dst="b", count=3000):
    shares = Shares(seed, spread)
    return [shares.next("a", dst) for _ in range(count)]


def test_weights_follow_from_the_seed_and_have_the_spread():
    first = weights(1, 0.4)
    assert first == weights(1, 0.4)
    assert not set(first) & set(weights(2, 0.4))
    assert not set(first) & set(weights(1, 0.4, dst="c"))
    assert np.mean(np.log(first)) == pytest.approx(0.0, abs=0.03)
    assert np.std(np.log(first)) == pytest.approx(0.4, rel=0.05)
    assert set(weights(1, 0.0, count=100)) == {1.0}


def test_weights_do_not_depend_on_what_other_hosts_send():
    shares = Shares(1, 0.4)
    mixed = [(shares.next("a", "b"), shares.next("c", "b"), shares.next("b", "a"))[0] for _ in "ab"]
    assert mixed == weights(1, 0.4, count=2)


@pytest.mark.parametrize("weight", [0.0, -1.0, 1e-4, 1e4, float("nan")])
def test_a_weight_out_of_bounds_is_refused(weight):
    with pytest.raises(SettingError, match=r"weight=.*: allowed are numbers from 0.001 to 1000"):
        Fabric({LINK: 1.0}).start((LINK,), 1.0, 0.0, weight=weight)


def test_a_benchmark_that_there_is_not_is_refused(capsys):
    assert bench.main(["transprot"]) == 2
    assert capsys.readouterr().err.startswith("bench: 'transprot' is none; allowed: transport,")
