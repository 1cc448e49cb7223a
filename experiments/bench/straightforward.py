"""The planner's ordering and paper aggregation written down as plainly as possible.

It recomputes every completion time at every step, plans every k in full and keeps profiles as
lists: what `mlfabric.planning` is measured against, and checked against in the tests.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from mlfabric.events import Update
from mlfabric.planning.batch import Batch
from mlfabric.planning.profile import Piece, Profile
from mlfabric.topology import Link

Links = dict[Link, Profile]
Shapes = list[tuple[tuple[str, ...], str | None]]


def plan(batch: Batch) -> tuple[Shapes, list[str], float]:
    """(members, via) of each group in priority order, ids dropped, mean arrival of the kept."""
    links = batch.residual.profiles()
    kept, dropped = _order(batch, dict(links))
    if not kept:
        return [], dropped, 0.0
    best = _with_direct(batch, kept, links, len(kept))
    for k in range(len(kept)):
        plan = _with_direct(batch, kept, links, k)
        if plan[1] < best[1] - _tolerance(best[1], batch.now, len(kept)):
            best = plan
    return best[0], dropped, batch.now + best[1] / len(kept)


def _tolerance(span: float, now: float, count: int) -> float:
    return 1e-9 * span + count * 4e-15 * (abs(now) + span)


def _order(batch: Batch, links: Links) -> tuple[list[Update], list[str]]:
    remaining, kept, dropped = list(batch.updates), list[Update](), list[str]()
    while remaining:
        ends = [
            _end(
                _pieces(batch, links, u.worker, batch.server, batch.ready_s(u), u.bytes),
                batch.ready_s(u),
            )
            for u in remaining
        ]
        earliest = min(ends)
        close = _tolerance(earliest - batch.now, batch.now, 1)
        update = remaining.pop(next(i for i, end in enumerate(ends) if end <= earliest + close))
        delay = batch.version + len(kept) - update.version
        if batch.delay_bound is not None and delay > batch.delay_bound:
            dropped.append(update.id)
            continue
        kept.append(update)
        _send(batch, links, update.worker, batch.server, batch.ready_s(update), update.bytes)
    return kept, dropped


def _with_direct(batch: Batch, updates: list[Update], links: Links, k: int) -> tuple[Shapes, float]:
    """The first k sent straight, the rest by the paper's rule; Σ seconds until they arrive."""
    links = dict(links)
    shapes: Shapes = []
    total, arrival = 0.0, max(batch.busy_until_s, batch.now)
    free = dict.fromkeys(batch.aggregators, batch.now)
    unused, rest = list(batch.aggregators), list(updates)
    while rest:
        hosts = [*unused, *(a for a in batch.aggregators if a not in unused and batch.reuse)]
        found = None if len(shapes) < k else _gather(batch, links, rest, hosts, free, arrival)
        if found is None:
            members, via = rest[:1], None
            end = _send(
                batch, links, rest[0].worker, batch.server, batch.ready_s(rest[0]), rest[0].bytes
            )
        else:
            via, members, last, links = found
            end = _send(batch, links, via, batch.server, last, batch.sum_bytes(members))
            free[via] = end
            unused = [host for host in unused if host != via]
        shapes.append((tuple(u.id for u in members), via))
        total += len(members) * (end - batch.now)
        arrival, rest = max(arrival, end), rest[len(members) :]
    return shapes, total


def _gather(
    batch: Batch,
    links: Links,
    updates: Sequence[Update],
    hosts: Sequence[str],
    free: dict[str, float],
    deadline: float,
) -> tuple[str, list[Update], float, Links] | None:
    found = None
    for host in hosts:
        if free[host] >= deadline:
            continue
        members, last, left = _collect(batch, dict(links), updates, host, free[host], deadline)
        if len(members) < 2:
            continue
        if found is None or (-len(members), last) < (-len(found[1]), found[2]):
            found = (host, members, last, left)
        if not batch.best_fit:
            break
    return found


def _collect(
    batch: Batch,
    links: Links,
    updates: Sequence[Update],
    host: str,
    begin: float,
    deadline: float,
) -> tuple[list[Update], float, Links]:
    members, last = list[Update](), begin
    for update in updates:
        ready = max(batch.ready_s(update), begin)
        pieces = _pieces(batch, links, update.worker, host, ready, update.bytes)
        if _end(pieces, ready) > deadline + _tolerance(deadline - begin, deadline, 1):
            break
        _reserve(batch, links, update.worker, host, pieces)
        members.append(update)
        last = max(last, _end(pieces, ready))
    return members, last, links


def _send(batch: Batch, links: Links, src: str, dst: str, ready: float, n_bytes: float) -> float:
    pieces = _pieces(batch, links, src, dst, ready, n_bytes)
    _reserve(batch, links, src, dst, pieces)
    return _end(pieces, ready)


def _end(pieces: Sequence[Piece], ready: float) -> float:
    return pieces[-1].end if pieces else ready


def _path(batch: Batch, src: str, dst: str) -> tuple[Link, ...]:
    return batch.residual.network.topology.path(src, dst) if src != dst else ()


def _pieces(
    batch: Batch, links: Links, src: str, dst: str, ready: float, n_bytes: float
) -> list[Piece]:
    profiles = [links[link] for link in _path(batch, src, dst)]
    if not profiles:
        return []
    found: list[Piece] = []
    time, left = ready, float(n_bytes)
    while left > 0:
        rate = min(profile.rate_at(time) for profile in profiles)
        change = min(_next(profile, time) for profile in profiles)
        end = min(time + left / rate, change) if rate > 0 else change
        if rate > 0:
            found.append(Piece(time, end, rate))
        elif end == math.inf:
            return [*found, Piece(time, math.inf, 0.0)]
        if end < change or end == math.inf or (rate > 0 and time + left / rate <= change):
            break
        left -= (end - time) * rate
        time = end
    return found


def _next(profile: Profile, time: float) -> float:
    place = bisect_right(profile.times, time)
    return profile.times[place] if place < len(profile.times) else math.inf


def _reserve(batch: Batch, links: Links, src: str, dst: str, pieces: Sequence[Piece]) -> None:
    for link in _path(batch, src, dst):
        links[link] = _minus(links[link], pieces)


def _minus(profile: Profile, pieces: Sequence[Piece]) -> Profile:
    cuts = {t for p in pieces for t in (p.start, p.end) if profile.times[0] < t < math.inf}
    times, rates = list[float](), list[float]()
    for time in sorted(cuts.union(profile.times)):
        before = profile.rate_at(time)
        left = before - sum(p.bytes_per_s for p in pieces if p.start <= time < p.end)
        rate = left if left > 1e-9 * before else 0.0
        if not rates or rate != rates[-1]:
            times.append(time)
            rates.append(rate)
    return Profile(tuple(times), tuple(rates))
