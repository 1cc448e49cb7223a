"""The choice of six straggler settings from a grid of ratios."""

from __future__ import annotations

import itertools
import json
import math
import random

import pytest

from experiments import infer_stragglers
from experiments.infer_stragglers import (
    COMPUTES,
    FITTED,
    NETWORKS,
    PAPER_MODE,
    RING,
    Job,
    best_combinations,
    median_ratio,
    points,
    seconds_of,
    updates_needed,
)
from mlfabric.errors import SettingError

TINY = tuple(itertools.product(COMPUTES[:4], NETWORKS[:4]))


def tiny(seed):
    """Sixteen ratios in the range of the paper's."""
    rng = random.Random(seed)
    return {pair: rng.uniform(1.0, 2.2) for pair in TINY}


def objective(ratios, computes, networks):
    """Of three compute and three network settings, in their order."""
    cs = dict(zip(("cs1", "cs2", "cs3"), computes, strict=True))
    ns = dict(zip(("ns1", "ns2", "ns3"), networks, strict=True))
    found = [(ratios[cs[c], ns[n]], told) for (c, n), told in FITTED.items()]
    if any(ratio is None for ratio, _ in found):
        return math.inf
    return sum(math.log(ratio / told) ** 2 for ratio, told in found)


def brute_force(ratios):
    threes = [itertools.permutations(grid, 3) for grid in (COMPUTES[:4], NETWORKS[:4])]
    return min(objective(ratios, *chosen) for chosen in itertools.product(*threes))


@pytest.mark.parametrize("seed", range(20))
def test_the_best_combination_is_the_best_of_all(seed):
    ratios = tiny(seed)
    best = best_combinations(ratios)
    assert len(best) == len(TINY)
    assert [one["objective"] for one in best] == sorted(one["objective"] for one in best)
    assert best[0]["objective"] == pytest.approx(brute_force(ratios))
    for one in best:
        chosen = [[tuple(one[f"{kind}{i}"].values()) for i in (1, 2, 3)] for kind in ("cs", "ns")]
        assert one["objective"] == pytest.approx(objective(ratios, *chosen))


@pytest.mark.parametrize("seed", range(20))
def test_pairs_without_a_ratio_are_left_out(seed):
    ratios = tiny(seed) | dict.fromkeys(random.Random(seed).sample(TINY, 5))
    best = best_combinations(ratios)
    assert best[0]["objective"] == pytest.approx(brute_force(ratios))
    assert len(best) <= len(TINY) - 5


def test_no_setting_is_used_twice():
    """One pair comes closest to every cell, but can stand for one only."""
    for one in best_combinations(dict.fromkeys(TINY, 9.0) | {TINY[5]: 1.4}):
        for kind in ("cs", "ns"):
            assert len({tuple(one[f"{kind}{i}"].values()) for i in (1, 2, 3)}) == 3


def test_a_grid_that_holds_the_answer_gives_it():
    cs = dict(zip(("cs1", "cs2", "cs3"), COMPUTES[3:6], strict=True))
    ns = dict(zip(("ns1", "ns2", "ns3"), NETWORKS[7:10], strict=True))
    ratios = dict.fromkeys(itertools.product(COMPUTES, NETWORKS), 9.0)
    for (compute, network), speedup in FITTED.items():
        ratios[cs[compute], ns[network]] = speedup
    best = best_combinations(ratios)[0]
    assert best["objective"] == 0
    assert best["cs2"] == cs["cs2"]._asdict()
    assert best["ns3"] == ns["ns3"]._asdict()


def test_a_run_that_took_too_long_leaves_no_ratio():
    assert median_ratio({RING: [8.0, 6.0, 10.0], PAPER_MODE: [2.0, 2.0, 2.0]}) == 4.0
    assert median_ratio({RING: [8.0, math.inf, 10.0], PAPER_MODE: [2.0, 2.0]}) == 5.0
    missed = {RING: [math.inf, math.inf, 10.0], PAPER_MODE: [2.0, 2.0, 2.0]}
    assert median_ratio(missed) is None
    assert median_ratio({RING: missed[PAPER_MODE], PAPER_MODE: missed[RING]}) is None
    (point,) = points({TINY[0]: missed})
    assert point["ratio"] is None
    assert point["seconds"] == {RING: [None, None, 10.0], PAPER_MODE: [2.0, 2.0, 2.0]}


def test_updates_that_do_not_come_in_time_take_for_ever(monkeypatch):
    monkeypatch.setattr(infer_stragglers, "TIME_LIMIT_S", 1.0)
    infer_stragglers._composed.cache_clear()
    job = Job("resnet_digits", RING, 30, COMPUTES[0], NETWORKS[4], seed=200)
    try:
        assert 0.25 < seconds_of(job) < 1.0
        assert seconds_of(job._replace(updates=3_000)) == math.inf
    finally:
        infer_stragglers._composed.cache_clear()


def test_the_updates_needed_are_those_at_the_step_scale_of_the_settings(tmp_path):
    path = tmp_path / "step_sizes-resnet_digits.json"
    with pytest.raises(SettingError, match="must exist"):
        updates_needed("resnet_digits", RING, tmp_path)
    scale = infer_stragglers._composed("resnet_digits", RING).step_scale
    path.write_text(json.dumps({"updates": {RING: {f"{scale:g}": 450.0, "64": 7.0}}}))
    assert updates_needed("resnet_digits", RING, tmp_path) == 450
    path.write_text(json.dumps({"updates": {RING: {f"{scale:g}": None, "64": 7.0}}}))
    with pytest.raises(SettingError, match="at step scale"):
        updates_needed("resnet_digits", RING, tmp_path)
