"""What must hold of a run whatever faults came: each function tells what does not, or None."""

from __future__ import annotations

import math
from collections.abc import Callable

from experiments.faults.counting import Rows, Seen
from experiments.faults.schedules import WORKERS, Schedule

RECOVERY_S = 3.0
"""After a fault: models are sent whole, over slow links, too."""

ROUND_S = 4.0
"""In which even a worker behind a tenth of a link has an update decided."""

Check = Callable[[Schedule, Rows, Seen], str | None]


def of(rows: Rows, kind: str) -> Rows:
    """Rows of a kind."""
    return [row for row in rows if row["row"] == kind]


def one_fate(schedule: Schedule, rows: Rows, seen: Seen) -> str | None:
    """No update is applied or dropped twice."""
    names = [row["id"] for row in of(rows, "update")]
    return None if len(set(names)) == len(names) else "an update has two fates"


def sums_are_whole(schedule: Schedule, rows: Rows, seen: Seen) -> str | None:
    """Every entry of every model holds the same number of updates: no sum was half applied."""
    for model, version, elapsed_s in seen:
        if model.min() != model.max():
            return f"version {version} at {elapsed_s:.1f} s: entries differ"
    return None


def counts_are_conserved(schedule: Schedule, rows: Rows, seen: Seen) -> str | None:
    """A model holds what was applied, until some is lost; a dropped delta is in the next one."""
    applied = [r for r in of(rows, "update") if r["status"] == "applied"]
    until_s = min((row["elapsed_s"] for row in of(rows, "lost")), default=math.inf)
    for model, version, elapsed_s in seen:
        if elapsed_s >= until_s:
            break
        held: dict[int, int] = {}
        for row in applied:
            if row["version_applied"] < version:
                held[row["worker"]] = max(held.get(row["worker"], 0), row["iteration"] + 1)
        if model[0] != sum(held.values()):
            return f"version {version} at {elapsed_s:.1f} s holds {model[0]}, not {held}"
    return None


def delays_are_bounded(schedule: Schedule, rows: Rows, seen: Seen) -> str | None:
    """No update is applied later than its bound."""
    bound = 6 if schedule.policy == "async_bounded" else schedule.delay_bound
    late = [r["delay"] for r in of(rows, "update") if r["status"] == "applied"]
    if bound is None or max(late, default=0) <= bound:
        return None
    return f"a delay of {max(late)}, bound {bound}"


def versions_grow(schedule: Schedule, rows: Rows, seen: Seen) -> str | None:
    """By as much as is applied, one commit after another."""
    placed = [r["version_applied"] for r in of(rows, "update") if r["status"] == "applied"]
    return None if placed == sorted(placed) else "versions do not grow"


def replica_is_near(schedule: Schedule, rows: Rows, seen: Seen) -> str | None:
    """Within the bound, but for what is committed together with the replica."""
    if schedule.replication is None or schedule.replication.kind != "bounded":
        return None
    bounds = [row["bound"] for row in of(rows, "promise") if row["bound"] is not None]
    most = max(max(bounds, default=0.0), WORKERS * len(seen[0][0]))
    for row in of(rows, "distance"):
        if row["distance"] > most:
            return f"{row['distance']} from the server at {row['elapsed_s']:.1f} s, bound {most}"
    return None


def run_goes_on(schedule: Schedule, rows: Rows, seen: Seen) -> str | None:
    """After the last fault no worker that is alive is stuck, and updates are applied."""
    gone = {row["host"] for row in of(rows, "loss")}
    alive = {n for n in range(WORKERS) if f"w{n + 1}" not in gone}
    end = max(row["elapsed_s"] for row in of(rows, "totals"))
    ends = [f.at_s + f.duration_s for f in schedule.faults if f.kind == "partition"]
    begin = max([row["at_s"] for row in of(rows, "fault")] + ends, default=0.0) + RECOVERY_S
    if end - begin < ROUND_S:
        return None  # too late to tell
    late = [row for row in of(rows, "update") if row["resolved_s"] > begin]
    if not alive <= {row["worker"] for row in late}:
        return f"{sorted(alive - {row['worker'] for row in late})} are stuck after the last fault"
    if not any(row["status"] == "applied" for row in late):
        return "nothing is applied after the last fault"
    return None


CHECKS: tuple[Check, ...] = (
    one_fate,
    sums_are_whole,
    counts_are_conserved,
    delays_are_bounded,
    versions_grow,
    replica_is_near,
    run_goes_on,
)


def complaint(schedule: Schedule, rows: Rows, seen: Seen) -> str | None:
    """The first invariant that does not hold, in a line."""
    for check in CHECKS:
        if (told := check(schedule, rows, seen)) is not None:
            return f"{check.__name__}: {told}"
    return None
