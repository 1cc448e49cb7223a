"""A worker's daemon under a policy with a server: pushes, sums at idle hosts, pulls, forwards."""

from __future__ import annotations

import queue
from typing import Any

from mlfabric.actions import CancelTransfer, StartTransfer
from mlfabric.engines.mpi.computing import Computation
from mlfabric.engines.mpi.coordination import update_id
from mlfabric.engines.mpi.node import Node
from mlfabric.engines.mpi.part import ComputingPart
from mlfabric.engines.mpi.plan import SERVER_RANK, Trainer
from mlfabric.engines.mpi.server import send_along
from mlfabric.engines.mpi.transport import Incoming, Outgoing
from mlfabric.events import ModelRequested, Update, UpdateReady
from mlfabric.payload import Payload, from_wire, to_wire, total
from mlfabric.view import ModelView


class Worker(ComputingPart):
    """Its asynchronous loop: compute, push, wait for applied or dropped, get, compute."""

    def __init__(
        self, node: Node, trainer: Trainer, view: ModelView, *, sends_at_once: bool
    ) -> None:
        super().__init__(node)
        self.computation = Computation(node, trainer, view, _push_and_get)
        self._view = view
        self._sends_at_once = sends_at_once
        self._shelf: dict[str, Payload] = {}
        self._brought: dict[str, str] = {}
        self._cancelled: set[str] = set()
        self._ready_s = 0.0
        self._sending: dict[str, Outgoing] = {}
        self._forwarding: dict[str, list[Outgoing]] = {}
        node.transport.on_stream = self._on_stream
        node.transport.on_chunk = self._on_chunk
        node.on("start", self._start)
        node.on("cancel", self._cancel)
        node.on("resolved", self._resolved)
        node.every_turn(self._serve)

    def _serve(self) -> bool:
        """Take what the computation thread asks for."""
        try:
            ask = self.computation.asked.get_nowait()
        except queue.Empty:
            return False
        if ask.kind == "push":
            self._push(*ask.body)
        else:
            self.node.waiting_for = f"a model newer than version {self._view.version}"
            self.node.asked_s = self.node.now()
            self.node.report(ModelRequested(self.node.host, self._view.version))
        return True

    def _push(self, iteration: int, payload: Payload) -> None:
        node = self.node
        name = update_id(node.host, iteration)
        _, data = to_wire(payload)
        update = Update(name, node.host, len(data), self._view.version, node.now(), payload.norm())
        node.waiting_for = f"update {name} to be applied or dropped"
        self._ready_s = node.now()
        if self._sends_at_once:
            header = {"kind": "update", "updates": (name,), "update": update}
            self._send(name, header, payload, SERVER_RANK)
        else:
            self._shelf[name] = payload
            node.report(UpdateReady(update))

    def _start(self, src: int, action: StartTransfer) -> None:
        """Send an own update, or the sum of what has been collected here."""
        payload = total([self._shelf.pop(name) for name in action.updates])
        self._brought = {t: u for t, u in self._brought.items() if u not in action.updates}
        header = {"kind": action.kind, "updates": action.updates}
        self._send(action.transfer, header, payload, self.node.plan.rank_of(action.dst))

    def _send(self, transfer: str, header: dict[str, Any], payload: Payload, dst: int) -> None:
        description, data = to_wire(payload)
        now = self.node.now()
        header |= {
            "transfer": transfer,
            "final": self.node.plan.context.server,
            "payload": description,
            "requested_s": self._ready_s if header["kind"] == "update" else now,
            "sent_s": now,
        }
        self._sending = {name: out for name, out in self._sending.items() if not out.done}
        self._sending[transfer] = self.node.transport.stream(dst, header, data)

    def _cancel(self, src: int, action: CancelTransfer) -> None:
        """As sender, stop; as receiver, throw away what has come."""
        if action.src == self.node.host:
            outgoing = self._sending.pop(action.transfer, None)
            if outgoing is not None:
                self.node.transport.cut(outgoing)
        elif action.transfer in self._brought:
            self._shelf.pop(self._brought.pop(action.transfer), None)
        else:  # it may still arrive, if all of it had been handed over
            self._cancelled.add(action.transfer)

    def _resolved(self, src: int, body: tuple[str, bool]) -> None:
        name, applied = body
        self._shelf.pop(name, None)
        self.computation.answer(applied)

    def _on_stream(self, stream: Incoming) -> None:
        if stream.header["kind"] == "model":
            streams = send_along(self.node, stream.header, stream.data, 0)
            self._forwarding[stream.header["transfer"]] = streams

    def _on_chunk(self, stream: Incoming) -> None:
        header = stream.header
        transfer = header["transfer"]
        if header["kind"] == "model":
            for outgoing in self._forwarding[transfer]:
                outgoing.available = stream.received_bytes
        if stream.done:
            self.node.record_transfer(stream)
            if header["kind"] == "model":
                self._take_model(stream)
            elif transfer not in self._cancelled:
                self._brought[transfer] = header["updates"][0]
                self._shelf[header["updates"][0]] = from_wire(header["payload"], stream.data)
        self.node.report_arrival(stream, transfer)

    def _take_model(self, stream: Incoming) -> None:
        header = stream.header
        del self._forwarding[header["transfer"]]
        payload = from_wire(header["payload"], stream.data)
        included = header["included"].get(self.node.host, -1)
        self.computation.answer((payload, header["version"], included))


def _push_and_get(computation: Computation, iteration: int, update: Payload) -> None:
    view = computation.view
    applied = computation.ask("push", (iteration, view.outgoing(iteration, update)))
    if not applied:
        view.dropped(iteration)
    view.pulled(*computation.ask("get"))
