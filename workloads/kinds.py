"""Kinds of workloads: this package's, and those that other packages bring.

A package outside adds one by an entry point of the group `mlfabric.workloads`: its name is the kind
that settings tell, its value the workload's class. A kind of this package's cannot be replaced.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from workloads.base import Workload, WorkloadError

GROUP = "mlfabric.workloads"
_OURS = {
    "plda": EntryPoint("plda", "workloads.plda:Plda", GROUP),
    "resnet": EntryPoint("resnet", "workloads.resnet:Resnet", GROUP),
    "imagenet": EntryPoint("imagenet", "workloads.imagenet:Imagenet", GROUP),
}


def names() -> tuple[str, ...]:
    """Every kind there is: this package's, then those of others."""
    return tuple(_known())


@cache
def workload_class(kind: str) -> type[Workload]:
    """The class of a kind; WorkloadError where there is none, or it cannot be imported."""
    if kind not in _known():
        raise WorkloadError(f"workload.kind={kind}: must be one of {', '.join(names())}")
    try:
        found: type[Workload] = _known()[kind].load()
    except (ImportError, AttributeError) as error:
        raise WorkloadError(f"workload.kind={kind}: cannot be imported: {error}") from error
    if not is_dataclass(found):
        raise WorkloadError(f"workload.kind={kind}: {_known()[kind].value} must be a dataclass")
    return found


@cache
def _known() -> dict[str, EntryPoint]:
    added = {point.name: point for point in entry_points(group=GROUP)}
    return _OURS | dict(sorted(added.items())) | _OURS
