"""Past facts that a coordinator (a policy's central state machine) is told."""

from __future__ import annotations

from typing import NamedTuple


class Update(NamedTuple):
    """What the scheduler knows of an update; the values stay with the worker.

    `bytes` on the wire; `version` is the model version it was computed from; `ready_s` is when it
    could first be sent; `norm` is that of its values (L2; L1 for counts).
    """

    id: str
    worker: str
    bytes: int
    version: int
    ready_s: float
    norm: float = 0.0


class UpdateReady(NamedTuple):
    """A worker has computed an update and would like to send it."""

    update: Update


class TransferProgress(NamedTuple):
    """The receiver sees a transfer come at `bytes_per_s`, having `bytes` of it."""

    transfer: str
    bytes: int
    bytes_per_s: float


class TransferEnding(NamedTuple):
    """The receiver has all of a transfer but its last chunks: a successor may start."""

    transfer: str


class TransferDone(NamedTuple):
    """The receiver holds a transfer completely.

    `bytes` were really moved; `bytes_per_s` is the rate that the receiver saw, None where the
    transfer was too short to tell.
    """

    transfer: str
    bytes: int
    bytes_per_s: float | None


class ModelRequested(NamedTuple):
    """A worker waits for a model newer than the version it holds."""

    worker: str
    held_version: int


class WorkerLeft(NamedTuple):
    """A worker sends no more updates and asks for no more models."""

    worker: str


class ReplicaCommitted(NamedTuple):
    """The replica holds all updates up to this version of its model."""

    version: int


class ReplicaPromoted(NamedTuple):
    """The replica serves; its model has this version."""

    version: int


class HostLost(NamedTuple):
    """A host is gone, with all that it had and was sending."""

    host: str


class RateMeasured(NamedTuple):
    """The current rate of both directions of a host's link, told by whoever knows it."""

    host: str
    bytes_per_s: float


class Woken(NamedTuple):
    """The time asked for by a `WakeAt` has come; it holds nothing, so test its type."""


Event = (
    UpdateReady
    | TransferProgress
    | TransferEnding
    | TransferDone
    | ModelRequested
    | ReplicaCommitted
    | ReplicaPromoted
    | HostLost
    | RateMeasured
    | WorkerLeft
    | Woken
)
