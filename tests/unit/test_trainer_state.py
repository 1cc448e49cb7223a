"""A trainer takes up where another one's state was taken, update by update."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.plda_tiny import tiny_plda
from tests.unit.resnet_tiny import tiny_resnet
from workloads.base import Trainer, Workload

STEPS = 7
"""More than a pass over the tiny data, so that the order of a second one is also taken up."""


def workloads(tmp_path: Path, framework: str) -> Workload:
    return (
        tiny_plda(tmp_path) if framework == "none" else tiny_resnet(tmp_path, framework=framework)
    )


def applied(trainer: Trainer, model: Any, steps: int) -> list[Any]:
    """Updates of so many steps, each applied to the model, in place."""
    found = []
    for _ in range(steps):
        indices, values = trainer.compute(model)
        model[slice(None) if indices is None else indices] += values
        found.append((indices, values))
    return found


@pytest.mark.parametrize("framework", ["none", "torch", "tensorflow"])
@pytest.mark.parametrize("taken", [1, STEPS])
def test_updates_go_on_as_they_would_have(tmp_path: Path, framework: str, taken: int) -> None:
    if framework != "none":
        pytest.importorskip(framework)
    workload = workloads(tmp_path, framework)
    make: Callable[[], Trainer] = lambda: workload.trainer(0, 2)  # noqa: E731
    first, model = make(), workload.initial_model()
    first.warm_up()
    first.load()
    applied(first, model, taken)
    state, then = pickle.dumps(first.state()), model.copy()
    expected = applied(first, model, STEPS)
    second = make()
    second.warm_up()
    second.load()
    second.restore(pickle.loads(state))
    for mine, theirs in zip(applied(second, then, STEPS), expected, strict=True):
        for part, wanted in zip(mine, theirs, strict=True):
            if framework == "tensorflow" and part is not None:  # its threads add up in any order
                np.testing.assert_allclose(part, wanted, rtol=1e-4, atol=1e-7)
            else:
                np.testing.assert_array_equal(part, wanted)
    np.testing.assert_allclose(then, model, rtol=1e-4, atol=1e-7)


def test_a_state_is_not_changed_by_later_updates(tmp_path: Path) -> None:
    for framework in ("none", "torch"):
        workload = workloads(tmp_path / framework, framework)
        trainer = workload.trainer(0, 2)
        trainer.load()
        model = workload.initial_model()
        applied(trainer, model, 2)
        state = trainer.state()
        before = pickle.dumps(state)
        applied(trainer, model, 3)
        assert pickle.dumps(state) == before


def test_minibatches_that_were_taken_are_left_out(tmp_path: Path) -> None:
    images = tiny_resnet(tmp_path)._source
    whole = list(islice(images.training(0, 2, 3), 9))
    for taken in (0, 1, 5):
        rest = list(islice(images.training(0, 2, 3, taken), 9 - taken))
        for mine, theirs in zip(rest, whole[taken:], strict=True):
            assert np.array_equal(mine.images, theirs.images)
            assert np.array_equal(mine.labels, theirs.labels)
