"""Checkpoints of real ranks: each writes what it needs to go on, all at one point of the run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any

from mlfabric import policies
from mlfabric.checkpoints import LEAST_SPACING, REQUEST, Checkpoints, first_of_part, last_of_part
from mlfabric.engines.mpi.node import Node
from mlfabric.engines.plan import Trainer
from mlfabric.engines.roles.casting import coordinator_hosts
from mlfabric.engines.roles.holding import GO_ON, HOLD, HOLDING
from mlfabric.engines.roles.names import of_shard
from mlfabric.engines.roles.role import LastingRole

LOOK_S = 0.25
PATIENCE_S = 10.0
"""How long ranks that cannot go on wait for the others to have saved."""

_SAVE, _NOTED, _WRITTEN = "save", "noted", "written"


class Saving:
    """This rank's part: once its roles and its computation are where they can be saved, it notes
    where it is, and writes that in a thread of its own."""

    def __init__(self, node: Node, roles: Sequence[LastingRole], trainer: Trainer | None) -> None:
        assert node.plan.run_dir is not None
        self._node = node
        self._roles = roles
        self._trainer = trainer
        self._checkpoints = Checkpoints(node.plan.run_dir)
        self._due: int | None = None
        self._writing: _Writing | None = None
        node.on(_SAVE, self._save)
        node.every_turn(self._look)

    def restore(self) -> None:
        """Take up where the checkpoint that the run goes on from was made."""
        checkpoint, host = self._node.plan.checkpoint, self._node.host
        if checkpoint is None:
            return
        part = cache(checkpoint.part)
        for role in self._roles:
            role.restore(lambda host, name: part(host)["roles"][name])
        if self._trainer is not None:
            self._trainer.load()
            self._trainer.restore(part(host)["trainer"])

    def save_alone(self) -> None:
        """The scheduler is lost, and with it the run: each rank saves where it stands."""
        deadline = time.monotonic() + PATIENCE_S
        while self._node.computing and time.monotonic() < deadline:
            self._node.fetch()  # and nothing else: others have stopped
            time.sleep(0.01)
        number = last_of_part(self._node.plan.part)
        if self._node.computing:  # what it has changed so far is in no update yet
            return
        with suppress(OSError):
            self._checkpoints.write(number, self._node.host, self._state())
        others = set(self._node.plan.hosts[1:])
        while self._checkpoints.parts(number) < others and time.monotonic() < deadline:
            time.sleep(0.05)  # whoever ends first ends all

    def _save(self, src: str, body: tuple[int, int]) -> None:
        self._due, until = body
        for role in self._roles:
            role.hold_until(until)

    def _look(self) -> bool:
        if self._writing is not None and self._writing.is_over:
            done, self._writing = self._writing, None
            complaint = done.complaint and f"{self._node.host}: {done.complaint}"
            self._node.send(self._node.plan.scheduler, _WRITTEN, (done.number, complaint))
        if self._due is None or self._writing is not None or self._node.computing:
            return False
        if not all(role.may_be_saved for role in self._roles):
            return False
        number, self._due = self._due, None
        at = (number, self._node.now(), self._node.records_bytes())
        self._node.send(self._node.plan.scheduler, _NOTED, at)
        self._writing = _Writing(partial(self._write, number, self._state()), number)
        return True

    def _write(self, number: int, state: Any) -> None:
        """Records up to here are on the disk before whoever refers to them."""
        self._node.sync_records()
        self._checkpoints.write(number, self._node.host, state)

    def _state(self) -> dict[str, Any]:
        found = {role.name: role.state() for role in self._roles}
        trainer = self._trainer.state() if self._trainer is not None else None
        return {
            "roles": {name: state for name, state in found.items() if state is not None},
            "trainer": trainer,
            "elapsed_s": self._node.now(),
        }


class _Writing:
    """A part on its way to the disk, which may take seconds."""

    def __init__(self, write: Callable[[], None], number: int) -> None:
        self.number = number
        self.complaint: str | None = None
        self._write = write
        self._thread = threading.Thread(target=self._run, name="checkpoint", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._write()
        except Exception as error:  # whatever it is, there is no such part
            self.complaint = str(error) or type(error).__name__


class Leading:
    """On the scheduler's host: when a checkpoint is due, and whether it is complete.

    None is made any more once a host has been lost: the run goes on from the last one before.
    """

    def __init__(self, node: Node) -> None:
        assert node.plan.run_dir is not None
        self._node = node
        self._request = node.plan.run_dir / REQUEST
        self._checkpoints = Checkpoints(node.plan.run_dir)
        self._number = first_of_part(node.plan.part)
        self._next_look = 0.0
        self._next_due: float | None = None
        self._begun_s = 0.0
        self._holding: list[int] | None = None
        self._noted: dict[str, tuple[float, int]] = {}
        self._written: dict[str, str | None] = {}
        node.on(HOLDING, self._one_holds)
        node.on(_NOTED, self._one_has_noted)
        node.on(_WRITTEN, self._one_has_written)
        node.on_lost(lambda host: self._give_up(f"{host} was lost"))
        node.every_turn(self._look)

    @property
    def _deciding(self) -> list[tuple[str, str]]:
        """Who is to hold: hosts, and the message that says so, without its end."""
        plan = self._node.plan
        if policies.is_collective(plan.policy):
            return [(worker, "{}") for worker in plan.context.workers]
        hosts = enumerate(coordinator_hosts(plan))
        return [(host, of_shard("{}", shard)) for shard, host in hosts]

    def _look(self) -> bool:
        node, now = self._node, self._node.now()
        if now < self._next_look or not node.begun or node.stopping:
            return False
        self._next_look = now + LOOK_S
        interval_s = node.plan.checkpoint_interval_s
        if self._next_due is None:
            self._next_due = now + (interval_s or float("inf"))
        asked = self._request.exists()
        if self._holding is not None or not (asked or now >= self._next_due):
            return False
        if len(node.alive) < len(node.plan.hosts):
            self._next_due = float("inf")
            self._give_up("a host was lost before")
            return False
        self._number += 1
        self._begun_s = now
        self._holding, self._noted, self._written = [], {}, {}
        for host, message in self._deciding:
            node.send(host, message.format(HOLD))
        return True

    def _one_holds(self, src: str, at: int) -> None:
        if self._holding is None:
            return
        self._holding.append(at)
        if len(self._holding) == len(self._deciding):
            self._node.send_all(_SAVE, (self._number, max(self._holding)))

    def _one_has_noted(self, src: str, body: tuple[int, float, int]) -> None:
        number, elapsed_s, records_bytes = body
        if number != self._number or self._holding is None:
            return
        self._noted[src] = (elapsed_s, records_bytes)
        if len(self._noted) == len(self._node.plan.hosts):
            self._let_go_on()

    def _one_has_written(self, src: str, body: tuple[int, str | None]) -> None:
        number, complaint = body
        if number != self._number or self._holding is None:
            return
        self._written[src] = complaint
        if len(self._written) == len(self._node.plan.hosts):
            self._conclude()

    def _conclude(self) -> None:
        """It counts if every part of it is there."""
        complaints = [text for text in self._written.values() if text is not None]
        if not complaints and self._checkpoints.parts(self._number) != set(self._noted):
            complaints = ["parts are missing"]
        if not complaints:
            elapsed_s = max(elapsed_s for elapsed_s, _ in self._noted.values())
            records = {host: n_bytes for host, (_, n_bytes) in self._noted.items()}
            try:
                self._checkpoints.complete(self._number, elapsed_s, records)
            except OSError as error:
                complaints = [str(error)]
        self._end(complaints[0] if complaints else None)

    def _give_up(self, why: str) -> None:
        """Where one was under way, or was asked for."""
        if self._holding is not None:
            self._let_go_on()
        if self._holding is not None or self._request.exists():
            self._end(why)

    def _end(self, complaint: str | None) -> None:
        """The next one comes an interval later, whatever became of this one, or when it is worth
        what it costs."""
        self._holding = None
        if complaint is not None:
            self._checkpoints.discard(self._number)
        interval_s, now = self._node.plan.checkpoint_interval_s, self._node.now()
        spacing_s = LEAST_SPACING * (now - self._begun_s)
        self._next_due = now + max(interval_s or float("inf"), spacing_s)
        self._node.record("checkpoint", elapsed_s=self._node.now(), complaint=complaint)
        self._request.unlink(missing_ok=True)

    def _let_go_on(self) -> None:
        for host, message in self._deciding:
            self._node.send(host, message.format(GO_ON))
