"""Groups whose hops are given: what each waits for."""

from __future__ import annotations

from mlfabric.events import Update
from mlfabric.planning.commits import OpenGroup
from mlfabric.planning.grouping import Hop, Shape, realize
from tests.support.batches import SERVER, make_batch


def test_a_host_that_passes_on_others_updates_waits_with_its_own_for_none_of_them():
    """w2 sends its own update to w3, and there, too, what w1 has sent it."""
    rates = {SERVER: 100.0, "w1": 1.0, "w2": 100.0, "w3": 100.0}
    updates = tuple(Update(f"u{n}", f"w{n}", 100, 0, 0.0) for n in (1, 2, 3))
    batch = make_batch(rates, updates, aggregation="pipelined", chunk_bytes=10)
    first, second, third = updates
    hops = (
        Hop((first,), "w1", "w2"),
        Hop((second,), "w2", "w3"),
        Hop((first,), "w2", "w3"),
        Hop((third, second, first), "w3", SERVER),
    )
    (group,) = realize(batch, [Shape(updates, hops, chunked=True)]).groups
    slow, own, passed_on, whole = group.transfers
    assert own.end_s < 2.0 < slow.end_s < passed_on.end_s < whole.end_s
    opened = OpenGroup.of(group, 0, iter("abcd"))
    inputs = [[source.id for source in transfer.inputs] for transfer in opened.transfers]
    assert inputs == [[], [], ["a"], ["b", "c"]]
