"""PyTorch and TensorFlow train alike: the same loss curve from the same weights and batches.

Tolerance: the first update of a small network agrees within 0.5 % of its length, that of fifty
layers within 10 %: either is that far from double precision (0.2 and 3 %), as single precision
adds up in another order. Twenty steps of SGD with momentum of a small network end within 0.1 % of
the distance that they went, every loss on the way within 0.1 %.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("tensorflow")

import torch
from torch.nn import functional

from tests.unit.resnet_tiny import tiny_resnet
from workloads.images.blueprint import Blueprint, bottleneck, small
from workloads.images.frameworks import make_step
from workloads.images.sgd import Sgd
from workloads.images.source import Batch
from workloads.images.torch_network import FlatNetwork

STEPS = 20
SGD = Sgd(learning_rate=0.02, momentum=0.9, weight_decay=1e-4)


def drawn(blueprint: Blueprint, side: int, count: int) -> list[Batch]:
    rng = np.random.default_rng(1)
    shape = (8, side, side, blueprint.stem.inputs)
    return [
        Batch(rng.standard_normal(shape, np.float32), rng.integers(0, blueprint.classes, 8))
        for _ in range(count)
    ]


def trained(framework: str, blueprint: Blueprint, batches: list[Batch]) -> list[np.ndarray]:
    """The models after each step."""
    step = make_step(framework, blueprint, SGD, batches[0].images.shape[1:])
    model, models = blueprint.initial(0), []
    for batch in batches:
        model = model + step(model, batch)
        models.append(model)
    return models


def loss(blueprint: Blueprint, model: np.ndarray, batch: Batch) -> float:
    network = FlatNetwork(blueprint, torch.device("cpu"))
    network.parameters.copy_(torch.from_numpy(model))
    with torch.no_grad():
        labels = torch.from_numpy(batch.labels)
        return float(functional.cross_entropy(network.scores(batch.images), labels))


@pytest.mark.parametrize(
    ("blueprint", "side", "tolerance"),
    [
        (small(8, 1, 10), 28, 5e-3),
        (small(8, 3, 10), 17, 5e-3),
        (bottleneck(50, 3, 12), 64, 0.1),
    ],
    ids=["gray", "odd side", "bottlenecks"],
)
def test_the_first_update_is_the_same(blueprint: Blueprint, side: int, tolerance: float) -> None:
    batches = drawn(blueprint, side, 1)
    start = blueprint.initial(0)
    ours, theirs = (trained(f, blueprint, batches)[0] - start for f in ("torch", "tensorflow"))
    assert np.linalg.norm(ours - theirs) < tolerance * np.linalg.norm(ours)


def test_the_loss_curves_are_the_same() -> None:
    blueprint = small(8, 1, 10)
    batches = drawn(blueprint, 28, 4) * (STEPS // 4)
    ours, theirs = (trained(framework, blueprint, batches) for framework in ("torch", "tensorflow"))
    went = np.linalg.norm(ours[-1] - blueprint.initial(0))
    assert np.linalg.norm(ours[-1] - theirs[-1]) < 1e-3 * went
    curves = [[loss(blueprint, model, batches[0]) for model in run] for run in (ours, theirs)]
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-3)
    assert curves[0][-1] < curves[0][0] - 0.2  # of noise with random labels, by heart


def test_a_worker_trains_in_tensorflow_on_its_own_images(tmp_path: Path) -> None:
    workload = tiny_resnet(tmp_path, framework="tensorflow", learning_rate=0.02)
    view = workload.initial_model()
    view.flags.writeable = False
    updates = []
    for framework in ("tensorflow", "torch"):
        trainer = tiny_resnet(tmp_path, framework=framework, learning_rate=0.02).trainer(1, 2)
        trainer.warm_up()
        trainer.load()
        updates.append([trainer.compute(view)[1] for _ in range(2)])
    for found, expected in zip(*updates, strict=True):
        assert found.dtype == np.float32
        assert np.linalg.norm(found - expected) < 1e-3 * np.linalg.norm(expected)
    for first, second in updates:
        assert not np.shares_memory(first, second)


def test_mixed_precision_gives_nearly_the_same_update() -> None:
    blueprint = small(8, 3, 10)
    (batch,) = drawn(blueprint, 32, 1)
    start = blueprint.initial(0)
    full, mixed = (
        make_step("torch", blueprint, SGD, (32, 32, 3), mixed_precision=mixed)(start, batch)
        for mixed in (False, True)
    )
    assert mixed.dtype == np.float32
    difference = np.linalg.norm(full - mixed) / np.linalg.norm(full)
    assert 1e-4 < difference < 0.15  # bfloat16 has three digits
