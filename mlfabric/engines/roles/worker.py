"""A worker under a policy with a server: pushes, sums at idle hosts, pulls, forwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlfabric.actions import CancelTransfer, CopyGroup, Probe, StartTransfer
from mlfabric.engines.roles.names import sequence, update_id
from mlfabric.engines.roles.node import Header, Incoming, Outgoing
from mlfabric.engines.roles.role import LastingRole, Saved
from mlfabric.engines.roles.server import headers_from, saved_server
from mlfabric.engines.roles.shard import JointComputation, Shard
from mlfabric.errors import ProtocolError
from mlfabric.events import ModelRequested, Update, UpdateReady
from mlfabric.payload import Payload, dense, total
from mlfabric.view import ModelView


class Worker(LastingRole):
    """Its asynchronous loop: compute, push, wait for applied or dropped, get, compute.

    It looks after one share of the model; a worker's computation waits for all of them.
    """

    def __init__(
        self, shard: Shard, view: ModelView, joint: JointComputation, *, sends_at_once: bool
    ) -> None:
        self._shard = shard
        self._node = shard.node
        self._view = view
        self._joint = joint
        self._sends_at_once = sends_at_once
        self._iteration = 0
        self._computed = -1
        self._own: dict[str, Payload] = {}
        self._ready_s = 0.0
        self._asked_s = 0.0
        self._pulling = False
        self._coming: dict[str, Incoming] = {}
        self._cancelled: set[str] = set()
        self._postponed: list[StartTransfer] = []
        self._sending: dict[str, Outgoing] = {}
        self._kept: dict[str, Callable[[], Payload]] = {}
        shard.receive(("model",), self._model_announced, self._take_model)
        if not shard.serves_here:  # what comes to a server is the server's
            shard.receive(("update", "sum"), self._update_announced, lambda stream: None)
        shard.receive(("probe",), lambda stream: None, lambda stream: None)
        shard.on("probe", self._probe)
        shard.on("start", self._start)
        shard.on("copy", self._copy)
        shard.on("cancel", self._cancel)
        shard.on("resolved", self._resolved)
        shard.watch_server()
        shard.node.on_lost(self._on_lost)

    def start(self) -> None:
        """The first computation, or the next."""
        self._compute()

    @property
    def name(self) -> str:
        return f"worker {self._shard.number}"

    @property
    def may_be_saved(self) -> bool:
        return self._computed >= 0

    def state(self) -> Any:
        """Its last update's number, and its view."""
        return self._computed, self._view.state()

    def restore(self, saved: Saved) -> None:
        """Go on from the server's model; what that does not hold of its updates was dropped."""
        self._computed, view = saved(self._node.host, self.name)
        self._iteration = self._computed + 1
        self._view.restore(view)
        self._view.dropped(self._computed)  # unless the model holds it, which is looked at next
        values, version, included = saved_server(self._shard, saved)
        model = dense(values[: len(self._view.values)])
        self._view.pulled(model, version, included.get(self._node.host, -1))
        self._node.held_version = version

    # -- the loop ----------------------------------------------------------------------------

    def _compute(self) -> None:
        self._joint.ask(self._shard.number, self._iteration, self._push)

    def _push(self, iteration: int, computed: Payload) -> None:
        node = self._node
        payload = self._view.outgoing(iteration, computed)
        self._computed = iteration
        name = update_id(node.host, iteration)
        n_bytes = max(node.wire_bytes(payload), 1)  # one that changes nothing is still sent
        self._ready_s = node.now()
        update = Update(name, node.host, n_bytes, self._view.version, self._ready_s, payload.norm())
        self._shard.waits_for("worker", f"update {name} to be applied or dropped")
        if self._sends_at_once:
            header = self._header(name, "update", (name,))
            node.stream(self._shard.context.server, {**header, "update": update}, payload)
        else:
            self._own[name] = payload
            self._shard.report(UpdateReady(update))

    def _resolved(self, src: str, body: tuple[str, bool]) -> None:
        name, applied = body
        node = self._node
        self._own.pop(name, None)
        if node.on_settled is not None:
            node.on_settled(sequence(name), applied)
        if not applied:
            self._view.dropped(sequence(name))
        self._shard.waits_for("worker", f"a model newer than version {self._view.version}")
        self._asked_s, self._pulling = node.now(), True
        self._shard.report(ModelRequested(node.host, self._view.version))

    def _take_model(self, stream: Incoming) -> None:
        given_up = stream.header["transfer"] in self._cancelled
        if given_up or not self._pulling or stream.header["version"] < self._view.version:
            return  # it came after all, though a host on its way was lost
        self._pulling = False
        included = stream.header["included"].get(self._node.host, -1)
        self._view.pulled(stream.payload(), stream.header["version"], included)
        self._node.held_version = self._view.version
        self._shard.waits_for("worker", None)
        self._iteration += 1
        self._compute()

    # -- what others send, and what this host sends for them ---------------------------------

    def _model_announced(self, stream: Incoming) -> None:
        for header in headers_from(self._node.host, stream.header, self._node.now()):
            self._note(header["transfer"], self._node.pass_on(stream, header["final"], header))
        stream.header["requested_s"] = self._asked_s

    def _update_announced(self, stream: Incoming) -> None:
        if stream.header["transfer"] not in self._cancelled:
            self._coming[stream.header["transfer"]] = stream
            postponed, self._postponed = self._postponed, []
            for action in postponed:
                self._start(self._node.host, action)

    def _start(self, src: str, action: StartTransfer) -> None:
        """Send an own update, or the sum of what is and of what comes here."""
        if any(name not in self._coming for name in action.inputs):
            self._postponed.append(action)  # an input has not even been announced
            return
        members = set(action.updates)
        names = [t for t, s in self._coming.items() if s.header["updates"][0] in members]
        streams = [self._coming.pop(name) for name in names]
        mine = [name for name in action.updates if name in self._own]
        own = [self._own.pop(name).scaled(action.scale) for name in mine]
        if len(own) + sum(len(s.header["updates"]) for s in streams) != len(members):
            raise ProtocolError(f"{self._node.host} cannot send all of {action}")
        flowing = [stream for stream in streams if not stream.done]
        known = [*own, *(stream.payload() for stream in streams if stream.done)]
        header = self._header(action.transfer, action.kind, action.updates)
        sent, payload = self._send(flowing, known, action.dst, header)
        self._note(action.transfer, sent)
        if self._shard.context.copies_are_kept and action.dst == self._shard.context.server:
            self._kept[action.transfer] = payload

    def _send(
        self, flowing: list[Incoming], known: list[Payload], dst: str, header: Header
    ) -> tuple[Outgoing, Callable[[], Payload]]:
        """Send the sum of what still comes and of what is here; what was sent, once it all was."""
        if flowing:
            passed_on = self._node.pass_on_sum(flowing, known, dst, header)
            return passed_on, passed_on.payload
        payload = total(known)
        return self._node.stream(dst, header, payload), lambda: payload

    def _copy(self, src: str, action: CopyGroup) -> None:
        """Send the replica what the server has got from here; it need not be kept any longer."""
        kept = self._kept.pop(action.source, None)
        if kept is None:  # the replica is gone, and the order was on its way
            return
        header = self._shard.header(
            "copy",
            action.updates,
            transfer=action.transfer,
            final=action.dst,
            requested_s=self._node.now(),
        )
        self._note(action.transfer, self._node.stream(action.dst, header, kept()))

    def _note(self, transfer: str, sent: Outgoing) -> None:
        """What is being sent can be cancelled."""
        self._sending = {name: out for name, out in self._sending.items() if not out.done}
        self._sending[transfer] = sent

    def _header(self, transfer: str, kind: str, updates: tuple[str, ...]) -> Header:
        requested_s = self._ready_s if kind == "update" else self._node.now()
        return self._shard.header(
            kind,
            updates,
            transfer=transfer,
            final=self._shard.context.server,
            requested_s=requested_s,
        )

    def _on_lost(self, host: str) -> None:
        """Nothing is kept for a replica that is gone."""
        replication = self._shard.context.replication
        if replication is not None and host == replication.host:
            self._kept.clear()
            self._shard.moves(self._shard.context.server)

    def _probe(self, src: str, action: Probe) -> None:
        now = self._node.now()
        header = self._shard.header(
            "probe", (), transfer=action.transfer, final=action.dst, requested_s=now
        )
        self._node.stream_zeros(action.dst, header, action.bytes)

    def _cancel(self, src: str, action: CancelTransfer) -> None:
        """As sender, stop; as receiver, throw away what has come, and what may still come."""
        if action.src == self._node.host:
            self._postponed = [a for a in self._postponed if a.transfer != action.transfer]
            self._kept.pop(action.transfer, None)
            outgoing = self._sending.pop(action.transfer, None)
            if outgoing is not None:
                self._node.cut(outgoing)
        elif self._coming.pop(action.transfer, None) is None:
            self._cancelled.add(action.transfer)
