"""Held-out loss and accuracy: known values, and nothing remembered between models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.unit.resnet_tiny import tiny_resnet


def test_a_model_of_zeros_guesses_one_class_in_ten(tmp_path: Path) -> None:
    workload = tiny_resnet(tmp_path)
    found = workload.evaluator().evaluate(np.zeros_like(workload.initial_model()))
    assert found["heldout_loss"] == pytest.approx(np.log(10), rel=1e-6)
    assert found["heldout_accuracy"] == pytest.approx(0.1)


def test_score_depends_on_the_model_alone(tmp_path: Path) -> None:
    # Were running statistics kept from one model to the next, the second score of `model` would
    # differ from the first.
    workload = tiny_resnet(tmp_path)
    evaluator, model = workload.evaluator(), workload.initial_model()
    first = evaluator.evaluate(model)
    other = evaluator.evaluate(model * np.float32(1.5))
    assert evaluator.evaluate(model) == first
    assert other != first


def test_training_on_the_scored_images_is_seen(tmp_path: Path) -> None:
    workload = tiny_resnet(tmp_path, learning_rate=0.02)
    heldout = workload.prepared_dir
    for kind in ("images", "labels"):
        np.save(heldout / f"heldout_{kind}.npy", np.load(heldout / f"train_{kind}.npy"))
    trainer, evaluator = workload.trainer(0, 1), workload.evaluator()
    trainer.load()
    model = workload.initial_model()
    before = evaluator.evaluate(model)
    for _ in range(40):
        model += trainer.compute(model)[1]
    after = evaluator.evaluate(model)
    assert after["heldout_loss"] < before["heldout_loss"] / 2
    assert after["heldout_accuracy"] == 1.0
