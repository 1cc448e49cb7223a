"""Names of updates."""

from __future__ import annotations


def update_id(worker: str, iteration: int) -> str:
    """Name of a worker's update; also tells whose it is and which one."""
    return f"{worker}:{iteration}"


def sequence(name: str) -> int:
    """The iteration in an update's name."""
    return int(name.rpartition(":")[2])


def worker_of(name: str) -> str:
    """The worker in an update's name."""
    return name.rpartition(":")[0]
