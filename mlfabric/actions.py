"""Orders that a coordinator returns; an engine performs them in the order given."""

from __future__ import annotations

from typing import Literal, NamedTuple

TransferKind = Literal["update", "sum"]


class StartTransfer(NamedTuple):
    """`src` sends the update, or the sum of the updates, named to `dst` (the next hop).

    `inputs` are transfers that arrive at `src`: they are summed with what `src` holds and passed
    on chunk by chunk, as they come. What `src` itself has computed is multiplied by `scale`.
    """

    transfer: str
    kind: TransferKind
    updates: tuple[str, ...]
    src: str
    dst: str
    inputs: tuple[str, ...] = ()
    scale: float = 1.0


class CancelTransfer(NamedTuple):
    """`src` stops sending; what has arrived at `dst` is thrown away."""

    transfer: str
    src: str
    dst: str


class DropUpdate(NamedTuple):
    """The update will not be applied: its delay would have been `delay` versions."""

    update: str
    worker: str
    delay: int


class CommitGroup(NamedTuple):
    """The server applies the sum of what transfers brought; `version` is the one it had before.

    `delays[i]` is the delay of `updates[i]`: version before minus version pulled. What
    `transfers[i]` brought is multiplied by `scales[i]`. Where a replica follows within a bound,
    `divergence` is at most how far it is behind after this, and the bound (None: not yet known).
    """

    transfers: tuple[str, ...]
    updates: tuple[str, ...]
    workers: tuple[str, ...]
    delays: tuple[int, ...]
    version: int
    scales: tuple[float, ...]
    divergence: tuple[float, float | None] | None = None


class CopyGroup(NamedTuple):
    """`src` sends the replica, `dst`, what it has sent the server as transfer `source`."""

    transfer: str
    source: str
    updates: tuple[str, ...]
    src: str
    dst: str


class CommitAtReplica(NamedTuple):
    """The replica applies the sum of what these transfers brought, and reports that it has.

    `version` is the one it had before: the server's when it applied the same.
    """

    transfers: tuple[str, ...]
    updates: tuple[str, ...]
    version: int


class SynchronizeReplica(NamedTuple):
    """The server, `src`, sends the replica all that it holds, of this version."""

    transfer: str
    src: str
    dst: str
    version: int


class PromoteReplica(NamedTuple):
    """The replica, on `host`, is the server from now on."""

    host: str


class DistributeModel(NamedTuple):
    """The server freezes its model and sends it along a tree.

    `edges` are (transfer, src, dst), a parent's edge before its children's; `since` is the oldest
    version that a receiver holds.
    """

    version: int
    since: int
    edges: tuple[tuple[str, str, str], ...]


class Probe(NamedTuple):
    """`src` sends `bytes` that mean nothing to `dst`, so that the rate of idle links is seen."""

    transfer: str
    src: str
    dst: str
    bytes: int


class WakeAt(NamedTuple):
    """Report `Woken` at time `at_s`."""

    at_s: float


Action = (
    StartTransfer
    | CancelTransfer
    | DropUpdate
    | CommitGroup
    | CopyGroup
    | CommitAtReplica
    | SynchronizeReplica
    | PromoteReplica
    | DistributeModel
    | Probe
    | WakeAt
)
