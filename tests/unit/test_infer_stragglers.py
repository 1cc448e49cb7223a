"""The choice of six straggler settings from a grid of ratios."""

from __future__ import annotations

import math

import pytest

from experiments.infer_stragglers import COMPUTES, FITTED, NETWORKS, best_combinations


def ratio(compute, network):
    """Grows with either kind of straggler."""
    slowed = 1 + network.probability * (1 / network.factor - 1)
    return slowed * (1 + compute.probability * (compute.max_factor - 1))


RATIOS = {(c, n): ratio(c, n) for c in COMPUTES for n in NETWORKS}


def test_the_best_combination_is_the_best_of_all():
    best = best_combinations(RATIOS)
    objectives = [one["objective"] for one in best]
    assert objectives == sorted(objectives)
    assert len(best) == len(COMPUTES) * len(NETWORKS)
    for one in best[:20]:
        expected = sum(
            math.log(one["ratios"][f"{cs.upper()}/{ns.upper()}"] / told) ** 2
            for (cs, ns), told in FITTED.items()
        )
        assert one["objective"] == pytest.approx(expected)


def test_no_setting_is_used_twice():
    for one in best_combinations(RATIOS)[:50]:
        networks = [tuple(one[name].items()) for name in ("ns1", "ns2", "ns3")]
        computes = [tuple(one[name].items()) for name in ("cs1", "cs2", "cs3")]
        assert len(set(networks)) == len(set(computes)) == 3


def test_a_grid_that_holds_the_answer_gives_it():
    told = dict(RATIOS)
    cs = dict(zip(("cs1", "cs2", "cs3"), COMPUTES[3:6], strict=True))
    ns = dict(zip(("ns1", "ns2", "ns3"), NETWORKS[7:10], strict=True))
    told = dict.fromkeys(told, 9.0)
    for (compute, network), speedup in FITTED.items():
        told[cs[compute], ns[network]] = speedup
    best = best_combinations(told)[0]
    assert best["objective"] == 0
    assert best["cs2"] == cs["cs2"]._asdict()
    assert best["ns3"] == ns["ns3"]._asdict()
