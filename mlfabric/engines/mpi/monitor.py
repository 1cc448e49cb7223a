"""Rank 0 keeps time, shows progress, ends the run, and notices when nothing moves."""

from __future__ import annotations

import json
import time
from typing import Any

from mlfabric.engines.mpi.node import Node
from mlfabric.engines.mpi.records import write_atomically
from mlfabric.engines.tallies import mean_tally
from mlfabric.errors import NothingMoves

CHECK_S = 0.25

PAUSE_S = 1.0
"""Between two checks: longer, and this rank has been held up."""


class Monitor:
    """Stops all ranks at `max_seconds`, or when a file named `stop` appears in the run folder."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._next_check = 0.0
        self._latest: dict[str, dict[str, Any]] = {}
        self._stopped: set[str] = set()
        self._heard: dict[str, float] = {}
        self._declared: set[str] = set()
        self._checked = time.monotonic()
        self._last_news: float | None = None
        node.on("heartbeat", self._heartbeat)
        node.on("goodbye", self._goodbye)
        node.on("suspect", lambda src, host: self._declare(host))
        node.every_turn(self._check)

    def _heartbeat(self, src: str, beat: dict[str, Any]) -> None:
        if self._latest.get(src, {}).get("activity") != beat["activity"] and src != self._node.host:
            self._last_news = time.monotonic()
        self._latest[src] = beat
        self._heard[src] = time.monotonic()

    def _goodbye(self, src: str, body: Any) -> None:
        """A rank has stopped; when all have, they may go."""
        self._stopped.add(src)
        self._let_go()

    def _let_go(self) -> None:
        if self._stopped.issuperset(self._node.alive):
            self._node.send_all("go")

    def _declare(self, host: str) -> None:
        """A host is lost: all are told before anything is decided because of it."""
        if host not in self._declared:
            self._declared.add(host)
            self._node.send_all("lost", host)
            self._last_news = time.monotonic()

    def _check_heartbeats(self, now: float) -> None:
        silent = [host for host in self._node.alive if self._silent_s(host, now) > 0]
        for host in silent:
            if host != self._node.host:
                self._declare(host)

    def _forgive_own_pause(self, now: float) -> None:
        """What this rank has not heard while it was held up itself is nobody else's silence."""
        if not self._heard:
            self._heard = dict.fromkeys(self._node.plan.hosts, now)
        pause_s = now - self._checked
        self._checked = now
        if pause_s > PAUSE_S:
            self._heard = {host: heard + pause_s for host, heard in self._heard.items()}

    def _silent_s(self, host: str, now: float) -> float:
        """For how long it has been silent, less what is tolerated."""
        return now - self._heard.get(host, now) - self._node.plan.lost_after_s

    def _check(self) -> bool:
        node = self._node
        now = time.monotonic()
        if now < self._next_check or not node.begun or node.may_go:
            return False
        self._next_check = now + CHECK_S
        self._forgive_own_pause(now)
        self._last_news = self._last_news or now
        quiet_s = now - self._last_news
        if not node.stopping and node.plan.fault_tolerant:
            self._check_heartbeats(now)
        if node.stopping and self._stopped:
            self._let_go()  # one that has not said so may be lost
        if not node.stopping:
            self._show_progress()
            self._stop_in_time(now)
        if quiet_s > node.plan.watchdog_s:
            waiting = [host for host in node.plan.hosts if host not in self._stopped]
            what = "the run is over, but not all stop" if node.stopping else "nothing has moved"
            raise NothingMoves(f"{what} for {quiet_s:.0f} s: {self._story(waiting)}")
        return False

    def _stop_in_time(self, now: float) -> None:
        node = self._node
        folder = node.plan.run_dir
        asked = folder is not None and (folder / "stop").exists()
        if asked or node.now() >= node.plan.max_seconds:
            node.send_all("stop")
            self._last_news = now

    def _show_progress(self) -> None:
        folder = self._node.plan.run_dir
        if folder is None:
            return
        node = self._node
        told = [
            t for src, beat in self._latest.items() if src != node.host for t in beat["tallies"]
        ]
        counts = mean_tally([*node.tallies.values(), *told], len(node.plan.servers))
        progress = {"elapsed_s": round(node.now(), 3), **counts}
        write_atomically(folder / "progress.json", json.dumps(progress))

    def _story(self, hosts: list[str]) -> str:
        return "; ".join(
            f"{host} waits for {self._latest.get(host, {}).get('waiting', 'an unknown thing')}"
            for host in hosts
        )
