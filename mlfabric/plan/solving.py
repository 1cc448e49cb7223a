"""From a problem as it is asked to the answer: what is planned, and how."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from mlfabric.events import Update
from mlfabric.plan import problem as asked
from mlfabric.plan.problem import Problem
from mlfabric.plan.rules import MIN_LAST_RATE
from mlfabric.plan.writing import optimum_written, plan_written, replica_written
from mlfabric.planning.aggregation import choose_aggregators
from mlfabric.planning.batch import Batch, Plan
from mlfabric.planning.exact.search import Optimum, optimum_or_estimate
from mlfabric.planning.planner import plan
from mlfabric.planning.profile import Profile
from mlfabric.planning.replication import Replica, replicate
from mlfabric.planning.residual import Network, Residual
from mlfabric.planning.sharing import plan_fair
from mlfabric.topology import Link, Topology


def solve(value: Any, *, exact: bool = False) -> dict[str, Any]:
    """The answer to a problem given as plain values; SettingError names the first bad field."""
    problem = asked.read(value)
    batch = batch_of(problem)
    made = plan(batch) if problem.sharing == "time" else plan_fair(batch)
    replica = None
    if problem.replica is not None:
        replicated = replicate(batch, made, Replica(**problem.replica.model_dump()))
        made, replica = replicated.plan, replica_written(replicated)
    optimum = optimum_written(_optimum(batch, made)) if exact else {}
    return {**plan_written(batch, made), "replica": replica, **optimum}


def batch_of(problem: Problem) -> Batch:
    """What the planner decides on.

    The server counts as taken by earlier batches for as long as nothing at all gets into it.
    """
    residual = _residual(problem)
    into_server = Link(problem.server, "ingress")
    rng = random.Random(problem.seed)
    return Batch(
        updates=tuple(map(_update, problem.updates)),
        residual=residual,
        server=problem.server,
        now=problem.now,
        version=problem.version,
        delay_bound=problem.delay_bound,
        ordering=problem.ordering,
        aggregation=problem.aggregation_mode,
        aggregators=choose_aggregators(problem.aggregators, problem.aggregator_choice, rng),
        best_fit=problem.aggregator_choice == "best_fit",
        reuse=problem.reuse_aggregators,
        model_bytes=problem.model_bytes,
        chunk_bytes=problem.chunk_bytes,
        busy_until_s=residual.first_time_at(into_server, MIN_LAST_RATE, problem.now),
    )


def _update(update: asked.AskedUpdate) -> Update:
    return Update(
        id=update.id,
        worker=update.worker,
        bytes=update.bytes,
        version=update.version,
        ready_s=update.ready,
        norm=update.norm or 0.0,
    )


def _residual(problem: Problem) -> Residual:
    racks = problem.racks or {}
    above = {host: name for name, rack in racks.items() for host in rack.hosts}
    profiles = {}
    for host, links in problem.links.items():
        profiles[Link(host, "egress")] = _profile(links.egress)
        profiles[Link(host, "ingress")] = _profile(links.ingress)
    for name, rack in racks.items():
        profiles[Link(name, "up")] = _profile(rack.up)
        profiles[Link(name, "down")] = _profile(rack.down)
    return Network(tuple(problem.links), Topology(above)).residual(profiles)


def _profile(rates: asked.Rates) -> Profile:
    times, values = zip(*rates, strict=True)
    return Profile(tuple(map(float, times)), tuple(map(float, values)))


def _optimum(batch: Batch, made: Plan) -> Optimum | None:
    """The optimum for what the plan keeps, without a replica; None where it keeps nothing."""
    kept = {member.id for group in made.groups for member in group.members}
    if not kept:
        return None
    updates = tuple(update for update in batch.updates if update.id in kept)
    summing = batch.aggregators if batch.aggregation != "none" else ()
    asked_for = dataclasses.replace(batch, updates=updates, aggregators=summing)
    return optimum_or_estimate(asked_for, _direct_s(asked_for))


def _direct_s(batch: Batch) -> float:
    """How long sending all directly takes."""
    direct = plan(dataclasses.replace(batch, aggregation="none", delay_bound=None))
    return max(group.commit_s for group in direct.groups) - batch.now
