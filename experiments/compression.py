"""What summing LDA's updates on the way saves (fig9): bytes of the parts over bytes of their sum.

Thirty workers sample the State of the Union in turn, as one process; in some of the sweeps everyone
computes an update from the same model, and so many of them are summed. Bytes are those of the wire.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.build import build_workload
from experiments.overrides import validate
from mlfabric.payload import Payload, dense, total, wire_size
from workloads.base import Trainer, Vector
from workloads.plda import Plda

WORKERS = 30
TOPICS = (10, 25, 50, 100, 200, 400, 600)
SUMMED = (1, 2, 4, 8, 15, 30)
SWEEPS = (1, 5)
"""Sweeps over the corpus whose updates are looked at: from the initial model, and a better one."""

SEED = 0


def measure(tell: Callable[[str], None]) -> dict[str, Any]:
    """Rows of (topics, sweep, summed): bytes of the parts, of their sum, of a dense update."""
    rows: list[dict[str, Any]] = []
    for topics in TOPICS:
        tell(f"fig9: updates of {topics} topics")
        rows += _of_topics(topics)
    return {"workers": WORKERS, "seed": SEED, "rows": rows}


def _of_topics(topics: int) -> list[dict[str, Any]]:
    plda = _workload(topics)
    plda.prepare()
    model = plda.initial_model()
    trainers = [plda.trainer(worker, WORKERS) for worker in range(WORKERS)]
    for trainer in trainers:
        trainer.warm_up()
        trainer.load()
    rows = []
    for sweep in range(1, max(SWEEPS) + 1):
        if sweep in SWEEPS:
            rows += _rows(topics, sweep, [_update(trainer, model) for trainer in trainers], model)
        else:
            for trainer in trainers:
                _update(trainer, model).add_to(model)
    return rows


def _workload(topics: int) -> Plda:
    """As configured; a minibatch is all that a worker has, as it is with the default and 30."""
    asked = ["workload=plda_sotu", "engine=virtual", f"workload.topics={topics}"]
    (config,) = validate(asked, multirun=False)
    made = build_workload(config.workload, SEED)
    assert isinstance(made, Plda)
    return dataclasses.replace(made, minibatch_tokens=1 << 30)


def _update(trainer: Trainer, model: Vector) -> Payload:
    indices, values = trainer.compute(model)
    return Payload(model.size, indices, values)


def _rows(topics: int, sweep: int, updates: list[Payload], model: Vector) -> list[dict[str, Any]]:
    rows = [
        {
            "topics": topics,
            "sweep": sweep,
            "summed": count,
            "parts_bytes": sum(map(wire_size, updates[:count])),
            "sum_bytes": wire_size(total(updates[:count])),
            "dense_bytes": wire_size(dense(np.zeros_like(model))),
        }
        for count in SUMMED
    ]
    for update in updates:
        update.add_to(model)
    return rows
