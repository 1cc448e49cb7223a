"""Parameters of training scripts are refused in one line, whatever is wrong with them."""

from __future__ import annotations

import numpy as np
import pytest

from mlfabric.api import Params
from mlfabric.errors import SettingError


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"mode": "bsp"}, "mode=bsp: must be one of sync, async, ssp"),
        ({"mode": "async", "delay_bound": 2.5}, "delay_bound=2.5: must be an integer, at least 0"),
        ({"mode": "async", "delay_bound": "3"}, "delay_bound=3: must be an integer, at least 0"),
        ({"mode": "ssp", "staleness": -1}, "staleness=-1: must be an integer, at least 0"),
        ({"mode": "async", "staleness": 2}, "staleness=2: must be None but in mode ssp"),
        ({"delay_bound": 3}, "delay_bound=3: must be None but in mode async or ssp"),
        ({"aggregation": "some", "mode": "ssp"}, "aggregation=some: must be one of none, paper,"),
        ({"replication": "some"}, "replication=some: must be one of none, chain, bounded"),
        ({"replication": "chain"}, "replication=chain: must be none but in mode async or ssp"),
        (
            {"mode": "async", "replication": "chain", "divergence_bound": 2.0},
            "divergence_bound=2.0: must be None but with replication=bounded",
        ),
        (
            {"mode": "ssp", "replication": "bounded", "divergence_bound": -1},
            "divergence_bound=-1: must be a number, above 0",
        ),
        ({"bytes_per_s": 0}, "bytes_per_s=0: must be a number, above 0"),
        ({"watchdog_s": True}, "watchdog_s=True: must be a number, above 0"),
        ({"seed": None}, "seed=None: must be an integer, at least 0"),
        ({"staleless": 3}, "staleless: unknown setting; known: mode, delay_bound, staleness"),
    ],
)
def test_a_bad_parameter_is_refused_in_one_line(settings, line):
    settings = dict(settings)
    with pytest.raises(SettingError) as refused:
        Params.of(settings.pop("mode", "sync"), settings)
    assert line in str(refused.value)


def test_a_bound_of_numpy_s_is_a_plain_number_afterwards():
    params = Params(mode="async", replication="bounded", divergence_bound=np.float64(2.0))
    assert type(params.settings(3).replication.divergence_bound) is float


def test_the_delay_bound_defaults_to_twice_the_other_workers():
    assert Params(mode="async").settings(5).options["delay_bound"] == 8
    assert Params(mode="async", delay_bound=0).settings(5).options["delay_bound"] == 0
