"""What must hold between fields: one rule a function, which returns its complaint or None."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from mlfabric.plan.complaints import field, refusal, shown

if TYPE_CHECKING:
    from mlfabric.plan.problem import Problem

MIN_LAST_RATE = 1e-9
"""Bytes/s that a link must have in the end, so that whatever is sent gets through."""

_MAX_ENTRIES = 5_000_000
"""Changes of rate that fit into the memory of an ordinary machine, with all copies of them."""

_Location = tuple[str | int, ...]
_Named = tuple[_Location, str]


def _profiles_ascend(problem: Problem) -> str | None:
    for location, rates in _profiles(problem):
        for i in range(1, len(rates)):
            before, time = rates[i - 1][0], rates[i][0]
            if time <= before:
                return refusal((*location, i, 0), time, f"above the time before it, {before}")
    return None


def _profiles_fit(problem: Problem) -> str | None:
    """Every profile is given room for as many changes as the longest one has."""
    sizes = [(len(rates), location) for location, rates in _profiles(problem)]
    longest, location = max(sizes, key=lambda size: size[0])
    most = _MAX_ENTRIES // len(sizes)
    if longest <= most:
        return None
    return f"{field(location)}: {longest} rates: must be at most {most} with {len(sizes)} links"


def _profiles_start_by_now(problem: Problem) -> str | None:
    for location, rates in _profiles(problem):
        if rates[0][0] > problem.now:
            return refusal((*location, 0, 0), rates[0][0], f"at most now, {problem.now}")
    return None


def _links_never_die(problem: Problem) -> str | None:
    for location, rates in _profiles(problem):
        last = len(rates) - 1
        if rates[last][1] < MIN_LAST_RATE:
            allowed = f"at least {MIN_LAST_RATE:g}, as the last rate holds for ever"
            return refusal((*location, last, 1), rates[last][1], allowed)
    return None


def _hosts_are_known(problem: Problem) -> str | None:
    for location, host in _hosts_named(problem):
        if host not in problem.links:
            return refusal(location, host, "a host in links")
    return None


def _racks_are_not_hosts(problem: Problem) -> str | None:
    for rack in problem.racks or {}:
        if rack in problem.links:
            return f"{field(('racks', rack))}: must not be named like a host in links"
    return None


def _one_rack_a_host(problem: Problem) -> str | None:
    seen: dict[str, str] = {}
    for location, host in _rack_members(problem):
        if host in seen:
            other = shown(seen[host])
            return refusal(location, host, f"in one rack only; it is in {other} already")
        seen[host] = str(location[1])
    return None


def _update_ids_differ(problem: Problem) -> str | None:
    seen: set[str] = set()
    for i, update in enumerate(problem.updates):
        if update.id in seen:
            return refusal(("updates", i, "id"), update.id, "unlike every id before it")
        seen.add(update.id)
    return None


def _aggregators_differ(problem: Problem) -> str | None:
    seen: set[str] = set()
    for i, host in enumerate(problem.aggregators):
        if host in seen:
            return refusal(("aggregators", i), host, "unlike every aggregator before it")
        seen.add(host)
    return None


def _server_only_serves(problem: Problem) -> str | None:
    for location, host in [*_workers(problem), *_aggregators(problem), *_replica(problem)]:
        if host == problem.server:
            return refusal(location, host, "another host than the server")
    return None


def _replica_only_follows(problem: Problem) -> str | None:
    """Nothing would cross the network to a replica beside a worker or an aggregator."""
    users = {host for _, host in [*_workers(problem), *_aggregators(problem)]}
    for location, host in _replica(problem):
        if host in users:
            return refusal(location, host, "a host without updates that does not aggregate")
    return None


def _versions_are_past(problem: Problem) -> str | None:
    for i, update in enumerate(problem.updates):
        if update.version > problem.version:
            allowed = f"at most the server's version {problem.version}"
            return refusal(("updates", i, "version"), update.version, allowed)
    return None


def _replica_knows_norms(problem: Problem) -> str | None:
    if problem.replica is None:
        return None
    for i, update in enumerate(problem.updates):
        if update.norm is None:
            return f"updates[{i}].norm: missing; must be a number, at least 0 with a replica"
    return None


def _replica_starts_within_bound(problem: Problem) -> str | None:
    replica = problem.replica
    if replica is None or replica.pending_norm <= replica.divergence_bound:
        return None
    allowed = f"at most divergence_bound {replica.divergence_bound}"
    return refusal(("replica", "pending_norm"), replica.pending_norm, allowed)


def _fair_sharing_sums_nothing(problem: Problem) -> str | None:
    if problem.sharing == "time" or problem.aggregation_mode == "none":
        return None
    return refusal(("aggregation",), problem.aggregation_mode, "none with sharing fair")


def _fair_sharing_puts_nothing_first(problem: Problem) -> str | None:
    if problem.sharing == "time" or problem.ordering == "shortest":
        return None
    return refusal(("ordering",), problem.ordering, "shortest with sharing fair")


def _fair_sharing_follows_nothing(problem: Problem) -> str | None:
    if problem.sharing == "time" or problem.replica is None:
        return None
    return refusal(("sharing",), problem.sharing, "time with a replica")


def _profiles(problem: Problem) -> Iterator[tuple[_Location, Sequence[tuple[float, float]]]]:
    for host, links in problem.links.items():
        yield ("links", host, "egress"), links.egress
        yield ("links", host, "ingress"), links.ingress
    for name, rack in (problem.racks or {}).items():
        yield ("racks", name, "up"), rack.up
        yield ("racks", name, "down"), rack.down


def _hosts_named(problem: Problem) -> Iterator[_Named]:
    yield ("server",), problem.server
    yield from _workers(problem)
    yield from _aggregators(problem)
    yield from _rack_members(problem)
    yield from _replica(problem)


def _workers(problem: Problem) -> Iterator[_Named]:
    for i, update in enumerate(problem.updates):
        yield ("updates", i, "worker"), update.worker


def _aggregators(problem: Problem) -> Iterator[_Named]:
    for i, host in enumerate(problem.aggregators):
        yield ("aggregators", i), host


def _rack_members(problem: Problem) -> Iterator[_Named]:
    for name, rack in (problem.racks or {}).items():
        for i, host in enumerate(rack.hosts):
            yield ("racks", name, "hosts", i), host


def _replica(problem: Problem) -> Iterator[_Named]:
    if problem.replica is not None:
        yield ("replica", "host"), problem.replica.host


RULES: tuple[Callable[[Problem], str | None], ...] = (
    _profiles_fit,
    _profiles_ascend,
    _profiles_start_by_now,
    _links_never_die,
    _racks_are_not_hosts,
    _hosts_are_known,
    _one_rack_a_host,
    _update_ids_differ,
    _aggregators_differ,
    _server_only_serves,
    _replica_only_follows,
    _versions_are_past,
    _replica_knows_norms,
    _replica_starts_within_bound,
    _fair_sharing_sums_nothing,
    _fair_sharing_puts_nothing_first,
    _fair_sharing_follows_nothing,
)
