"""The virtual clock's queue."""

from __future__ import annotations

import math

from mlfabric.engines.virtual.agenda import Agenda


def test_calls_come_in_the_order_of_time_then_of_asking():
    agenda, seen = Agenda(), []
    agenda.at(2.0, seen.append, "c")
    agenda.at(1.0, seen.append, "a")
    agenda.at(1.0, seen.append, "b")
    while agenda.next_s() < math.inf:
        agenda.step()
    assert seen == ["a", "b", "c"]
    assert agenda.now == 2.0


def test_what_is_past_happens_now():
    agenda, seen = Agenda(), []
    agenda.after(1.0, lambda: agenda.at(0.5, lambda: seen.append(agenda.now)))
    agenda.step()
    agenda.step()
    assert seen == [1.0]
