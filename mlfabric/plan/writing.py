"""A plan as plain values in the answer's shape, and their JSON text."""

from __future__ import annotations

import json
from typing import Any

from mlfabric.planning.batch import Batch, Group, Plan, PlannedTransfer
from mlfabric.planning.exact.search import Optimum
from mlfabric.planning.replication import ReplicaGroup, Replicated


def plan_written(batch: Batch, plan: Plan) -> dict[str, Any]:
    """What the answer says of a plan for the server."""
    place = {update.id: i for i, update in enumerate(batch.updates)}
    ends = {
        id: group.commit_s
        for group in plan.groups
        for id in sorted((member.id for member in group.members), key=place.__getitem__)
    }
    return {
        "order": list(ends),
        "dropped": [{"id": drop.update.id, "delay": drop.delay} for drop in plan.dropped],
        "groups": [_group(group) for group in plan.groups],
        "transfers": [_transfer(t) for group in plan.groups for t in group.transfers],
        "completion": ends,
        "mean_completion": plan.mean_completion_s if ends else None,
    }


def replica_written(replicated: Replicated) -> dict[str, Any]:
    """What the answer says of the replica."""
    groups = [
        {**_group(group), "transfers": [_transfer(transfer) for transfer in group.transfers]}
        for group in replicated.groups
    ]
    return {"groups": groups, "max_divergence": replicated.max_divergence}


def optimum_written(found: Optimum | None) -> dict[str, Any]:
    """The best plan on the grid; with a lower bound where it is not known to be the best.

    None where there was nothing to send.
    """
    ends = found.completion_s if found else {}
    bound = {} if found is None or found.proven else {"optimal_bound": found.bound_s}
    return {
        "optimal_mean_completion": found.mean_completion_s if found and ends else None,
        "optimal_first_hop": dict(found.first_hop) if found else {},
        "optimal_completion": {id: ends[id] for id in sorted(ends, key=ends.__getitem__)},
        "optimal_slot": found.slot_s if found else None,
        **bound,
    }


def text(value: Any, indent: str = "") -> str:
    """JSON in which a value that holds objects is spread over lines, any other is on one."""
    if not _holds_objects(value):
        return json.dumps(value, allow_nan=False)
    inner = indent + " "
    if isinstance(value, list):
        return _spread("[]", [text(entry, inner) for entry in value], indent)
    fields = [f"{json.dumps(key)}: {text(entry, inner)}" for key, entry in value.items()]
    return _spread("{}", fields, indent)


def _spread(brackets: str, lines: list[str], indent: str) -> str:
    body = ",\n".join(f"{indent} {line}" for line in lines)
    return f"{brackets[0]}\n{body}\n{indent}{brackets[1]}"


def _holds_objects(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(isinstance(entry, dict) or _holds_objects(entry) for entry in inner)


def _group(group: Group | ReplicaGroup) -> dict[str, Any]:
    return {
        "members": [member.id for member in group.members],
        "via": group.via,
        "version_before": group.version_before,
        "commit": group.commit_s,
    }


def _transfer(transfer: PlannedTransfer) -> dict[str, Any]:
    updates = transfer.updates
    return {
        "what": updates[0] if len(updates) == 1 else list(updates),
        "src": transfer.src,
        "dst": transfer.dst,
        "pieces": [list(piece) for piece in transfer.pieces],
    }
