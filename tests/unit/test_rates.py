"""What the estimator believes after transfers of known speed."""

from __future__ import annotations

import pytest

from mlfabric.planning.rates import RateEstimator
from mlfabric.topology import Link

LINE = 100.0
UP, OTHER, DOWN = Link("w1", "egress"), Link("w2", "egress"), Link("server", "ingress")


def estimator(memory_s=10.0):
    return RateEstimator({UP: LINE, DOWN: LINE, OTHER: LINE}, memory_s)


def test_the_slow_link_is_the_one_that_has_not_lately_been_fast():
    rates = estimator()
    rates.observed((OTHER, DOWN), 99.0, LINE, 0.0)  # the server's link has just shown its rate
    rates.observed((UP, DOWN), 10.0, LINE, 1.0)
    assert rates.rate(UP, 1.0) == 10.0
    assert rates.rate(DOWN, 1.0) == LINE


def test_a_rate_near_the_expected_one_is_no_news():
    rates = estimator()
    rates.observed((UP, DOWN), 90.0, LINE, 0.0)
    assert rates.rate(UP, 0.0) == LINE


def test_a_link_that_recovers_is_believed_at_once():
    rates = estimator()
    rates.told(UP, 10.0, 0.0)
    rates.observed((UP, DOWN), 97.0, 10.0, 1.0)
    assert rates.rate(UP, 1.0) == LINE


def test_a_low_estimate_is_forgotten_in_time():
    rates = estimator(memory_s=2.0)
    rates.told(UP, 10.0, 0.0)
    assert rates.rate(UP, 1.9) == 10.0
    assert rates.rate(UP, 2.1) == pytest.approx(LINE)
