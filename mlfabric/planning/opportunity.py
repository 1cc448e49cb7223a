"""When it is time to plan: not before the server's link is soon free, nor without news [ours]."""

from __future__ import annotations

from collections.abc import Iterable

from mlfabric.planning.commits import OpenGroup
from mlfabric.planning.loads import START_SHARE, LinkLoads
from mlfabric.planning.waiting import WaitingUpdates

PLAN_AHEAD = 1.05
"""The next batch is planned when the server's ingress is reserved for this many mean transfers
more [ours]: the last transfer of a batch has just started."""

GATHER_SHARE = 1 / 32
"""As long as the server's link is taken, the next plan waits for updates of this share of the
workers [ours]: with few workers that is one."""

FEW_WAITING = 16
"""So many waiting updates are planned afresh at every opportunity [ours]."""

NEWS_SHARE = 0.75
MANY_WAITING = 192
"""Of `MANY_WAITING` updates or more, news (an update, another rate) must amount to this share of
those beyond `FEW_WAITING` before they are planned again, of fewer to less [ours]: that bounds what
planning an update costs."""


class Opportunity:
    """Watches the server's link (row `ingress`), into which `groups` on their way still cross.

    `news` counts what has changed since the last plan; add to `regroupings` whenever there is
    another group, or less to come of one.
    """

    def __init__(
        self, loads: LinkLoads, ingress: int, groups: Iterable[OpenGroup], workers: int, most: int
    ) -> None:
        self.news = 0
        self.regroupings = 0
        self._loads = loads
        self._ingress = ingress
        self._groups = groups
        self._enough = GATHER_SHARE * workers
        self._most = most
        self._known = (-1, -1)
        self._free_s = 0.0

    def moved(self, ingress: int) -> None:
        """Another host is the server."""
        self._ingress = ingress
        self._known = (-1, -1)

    def has_come(self, waiting: WaitingUpdates, dry: bool, now: float) -> bool:
        """Whether to plan now what waits; `dry`: nothing that was planned is left to start."""
        count = waiting.count
        if not count or (not dry and self.news < _worth_planning(min(count, self._most))):
            return False
        ahead_s = 0.0
        if count >= self._enough:
            ahead_s = PLAN_AHEAD * waiting.mean_bytes / self._loads.rate(self._ingress)
        return self.server_free_s(now) - now <= ahead_s

    def server_free_s(self, now: float) -> float:
        """When the server's link has room again after what is on its way.

        That is worked out afresh only when something has happened to the link, or to the groups.
        """
        state = (self._loads.changes[self._ingress], self.regroupings)
        if state != self._known:
            unsent = [g.crossing for g in self._groups if g.crossing.started_s is None]
            queued = [crossing.bytes for crossing in unsent if crossing.src != crossing.dst]
            share = START_SHARE * self._loads.rate(self._ingress)
            self._known = state
            self._free_s = self._loads.first_time_at(self._ingress, share, sum(queued), now)
        return max(self._free_s, now)


def _worth_planning(count: int) -> float:
    """How much news make a plan for so many updates stale."""
    return NEWS_SHARE * min(count / MANY_WAITING, 1.0) * (count - FEW_WAITING)
