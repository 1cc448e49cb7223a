"""Bandwidth classes of update messages, on a run small enough to count by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.link_classes import LinkFactors, class_shares

# Over 100 s: w1 is slow (0.1) from 10 s to 30 s, w2 (0.5) from 20 s to 40 s.
CHANGES = pd.DataFrame(
    [(10.0, "w1", 0.1), (20.0, "w2", 0.5), (30.0, "w1", 1.0), (40.0, "w2", 1.0)],
    columns=["time_s", "host", "factor"],
)
FACTORS = LinkFactors(CHANGES, end_s=100.0)


def transfers(*rows: tuple[str, str, str | None, float]) -> pd.DataFrame:
    """kind, source, next hop (None: straight to the server), start."""
    frame = pd.DataFrame(rows, columns=["kind", "src", "next_hop", "started_s"])
    return frame.assign(dst="server")


def shares(*rows: tuple[str, str, str | None, float]) -> pd.DataFrame:
    return class_shares(transfers(*rows), FACTORS).set_index("factor")


def test_a_path_is_as_slow_as_its_slowest_link() -> None:
    starts, factors = FACTORS.of_path(("w1", "w2"))
    np.testing.assert_array_equal(starts, [0.0, 10.0, 20.0, 30.0, 40.0])
    np.testing.assert_array_equal(factors, [1.0, 0.1, 0.1, 0.5, 1.0])


def test_time_shares_of_a_path() -> None:
    assert FACTORS.shares_of_time(("w1", "w2")).to_dict() == pytest.approx(
        {0.1: 0.2, 0.5: 0.1, 1.0: 0.7}
    )


def test_changes_past_the_end_do_not_count() -> None:
    short = LinkFactors(CHANGES, end_s=20.0)
    assert short.shares_of_time(("w1", "server")).to_dict() == pytest.approx({0.1: 0.5, 1.0: 0.5})


def test_messages_are_counted_in_the_class_at_their_start() -> None:
    result = shares(
        ("update", "w1", None, 9.9), ("update", "w1", None, 10.0), ("update", "w1", None, 50.0)
    )
    assert result["messages"].to_dict() == {0.1: 1, 1.0: 2}
    assert result["share"].to_dict() == pytest.approx({0.1: 1 / 3, 1.0: 2 / 3})
    assert result["time_share"].to_dict() == pytest.approx({0.1: 0.2, 1.0: 0.8})


def test_the_next_hop_counts_and_not_the_final_destination() -> None:
    assert shares(("update", "w3", "w2", 25.0))["messages"].to_dict() == {0.5: 1, 1.0: 0}


def test_time_shares_are_those_of_the_paths_used() -> None:
    result = shares(("update", "w1", None, 50.0), ("sum", "w3", None, 50.0))
    assert result["time_share"].to_dict() == pytest.approx({0.1: 0.1, 1.0: 0.9})


def test_models_and_what_crosses_no_link_are_no_update_messages() -> None:
    result = shares(
        ("model", "server", "w1", 15.0),
        ("share", "w1", "w2", 15.0),
        ("update", "w1", None, np.nan),
        ("update", "w1", "w1", 15.0),
    )
    assert result["messages"].sum() == 1


def test_a_run_without_messages_has_no_classes() -> None:
    assert class_shares(transfers(), FACTORS).empty
