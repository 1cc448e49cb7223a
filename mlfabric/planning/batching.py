"""What the planner is given: the updates of the next batch, and who may sum them."""

from __future__ import annotations

import random
from collections.abc import Container, Iterable, Sequence

from mlfabric.events import Update
from mlfabric.planning.aggregation import choose_aggregators
from mlfabric.planning.batch import PATIENCES, Batch
from mlfabric.planning.commits import OpenGroup
from mlfabric.planning.loads import LinkLoads
from mlfabric.planning.settings import SchedulerSettings

LARGE_BATCH = 32
"""With more updates in a batch, fewer patiences are tried; with more idle hosts, only as many
aggregators are considered as there are updates, but so many at least [ours]."""

PATIENCES_OF_LARGE_BATCH = (1.0,)
"""What pipelined sums of more than `LARGE_BATCH` updates are tried with; see `Batch`."""


class Batching:
    """Makes batches by a scheduler's settings, of what its links carry."""

    def __init__(self, settings: SchedulerSettings, loads: LinkLoads) -> None:
        self._settings = settings
        self._loads = loads
        self._rng = random.Random(settings.seed)

    def batch(
        self,
        updates: tuple[Update, ...],
        groups: Iterable[OpenGroup],
        server: str,
        workers: Container[str],
        *,
        version: int,
        busy_until_s: float,
        now: float,
    ) -> Batch:
        """These updates, after the `groups` on their way; `workers` are alive, and the server, at
        `version`, is busy so long."""
        settings, groups = self._settings, list(groups)
        aggregators = self._aggregators(updates, groups, workers)
        queued = (transfer for group in groups for transfer in group.unsent())
        hosts = (server, *[u.worker for u in updates], *aggregators)
        return Batch(
            updates,
            self._loads.residual(hosts, queued, now),
            server,
            now=now,
            version=version + sum(len(group.members) for group in groups),
            delay_bound=settings.delay_bound,
            ordering=settings.ordering,
            aggregation=settings.aggregation,
            aggregators=aggregators,
            best_fit=settings.aggregator_choice == "best_fit",
            reuse=False,  # the plan after this one may: nothing is promised yet
            model_bytes=settings.model_bytes,
            chunk_bytes=settings.chunk_bytes,
            patiences=PATIENCES if len(updates) <= LARGE_BATCH else PATIENCES_OF_LARGE_BATCH,
            busy_until_s=busy_until_s,
        )

    def _aggregators(
        self, updates: Sequence[Update], groups: Iterable[OpenGroup], workers: Container[str]
    ) -> tuple[str, ...]:
        """Idle hosts; of very many, those that have an update of the batch and then some others."""
        settings = self._settings
        if settings.aggregation == "none":
            return ()
        busy = {host for group in groups for host in group.summing()}
        alive = (host for host in settings.aggregators if host in workers)
        idle = [host for host in alive if host not in busy]
        having = {update.worker for update in updates}
        count = max(len(updates), LARGE_BATCH)
        return choose_aggregators(idle, settings.aggregator_choice, self._rng, having, count)
