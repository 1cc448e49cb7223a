"""Names of updates, and of the messages of a shard."""

from __future__ import annotations


def update_id(worker: str, iteration: int) -> str:
    """Name of a worker's update; also tells whose it is and which one."""
    return f"{worker}:{iteration}"


def of_shard(kind: str, shard: int) -> str:
    """What messages of a kind are called that belong to one shard."""
    return f"{kind}@{shard}"


def sequence(name: str) -> int:
    """The iteration in an update's name."""
    return int(name.rpartition(":")[2])


def worker_of(name: str) -> str:
    """The worker in an update's name."""
    return name.rpartition(":")[0]
