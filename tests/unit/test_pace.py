"""Bytes on paths whose links change as the trace says."""

from __future__ import annotations

import numpy as np
import pytest

from mlfabric.emulation.spec import RateEvent
from mlfabric.engines.virtual.pace import Pace
from mlfabric.topology import Link
from tests.support.virtual import virtual_plan

PATHS = [(Link("w1", "egress"), Link("w2", "ingress")), (Link("w2", "egress"),), ()]


def pace(*events):
    return Pace(virtual_plan("ring_allreduce", 2, rate_events=events), PATHS)


def test_without_stragglers_bytes_take_their_size_over_the_rate():
    ends = pace().ends(np.array([0.0, 1.0, 2.0]), 5e5)
    np.testing.assert_allclose(ends, [0.5, 1.5, 2.0])


def test_a_change_on_the_way_counts_from_when_it_comes():
    """0.3 s at 1 MB/s, then 0.2 MB at 0.1 MB/s until 1.3 s, then the rest at full rate."""
    changing = pace(RateEvent(0.3, "w1", 0.1), RateEvent(1.3, "w1", 1.0))
    ends = changing.ends(np.array([0.0, 0.0, 0.0]), 5e5)
    np.testing.assert_allclose(ends, [1.4, 0.5, 0.0])


def test_a_path_is_as_fast_as_its_slowest_link():
    slow = pace(RateEvent(0.0, "w1", 0.5), RateEvent(0.0, "w2", 0.25))
    ends = slow.ends(np.array([0.0, 0.0, 0.0]), 1e5)
    np.testing.assert_allclose(ends, [0.4, 0.4, 0.0])


@pytest.mark.parametrize("begin_s", [0.0, 0.29, 0.31, 5.0])
def test_beginning_later_never_ends_earlier(begin_s):
    changing = pace(RateEvent(0.3, "w1", 0.1), RateEvent(1.3, "w1", 1.0))
    earlier = changing.ends(np.array([begin_s, 0.0, 0.0]), 5e5)[0]
    later = changing.ends(np.array([begin_s + 0.01, 0.0, 0.0]), 5e5)[0]
    assert later >= earlier
