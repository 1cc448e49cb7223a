"""Control messages survive the wire, and nothing else gets in."""

from __future__ import annotations

import pickle

import pytest

from mlfabric.actions import CommitGroup, DistributeModel, StartTransfer
from mlfabric.engines.mpi.wire import decode, encode
from mlfabric.errors import ProtocolError
from mlfabric.events import TransferDone, Update, UpdateReady


@pytest.mark.parametrize(
    "message",
    [
        ("event", UpdateReady(Update("w1:0", "w1", 12, 3, 0.5, 1.25))),
        ("event", TransferDone("t1", 12, None)),
        ("start", StartTransfer("t1", "sum", ("a", "b"), "w1", "server")),
        ("start", StartTransfer("t3", "sum", ("a", "b"), "w1", "server", ("t1", "t2"))),
        ("commit", CommitGroup(("t1",), ("a",), ("w1",), (2,), 7, (0.5,))),
        ("distribute", DistributeModel(4, 2, (("t1", "server", "w1"), ("t2", "w1", "w2")))),
        ("stream", 7, 1000, {"kind": "model", "included": {"w1": 3}, "payload": {"nnz": None}}),
    ],
)
def test_round_trip(message):
    assert repr(decode(encode(message))) == repr(message)  # named tuples equal plain ones


@pytest.mark.parametrize(
    "data",
    [
        b"\xc1",
        encode(("x", 1))[:-1],
        pickle.dumps({"a": 1}),
        encode({"$": "System"}),
        encode({"$": "TransferDone", "bogus": 1}),
    ],
)
def test_foreign_bytes_are_refused(data):
    with pytest.raises(ProtocolError):
        decode(data)
