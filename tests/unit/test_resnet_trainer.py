"""Updates of the residual network: gradient, momentum, decay, and what they leave untouched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch.nn import functional

from tests.unit.resnet_tiny import IMAGES, tiny_images, tiny_resnet
from workloads.images.blueprint import small
from workloads.images.torch_network import FlatNetwork
from workloads.resnet import Resnet
from workloads.resnet.images import DATASETS


def update(workload: Resnet, worker: int = 0, workers: int = 2) -> np.ndarray:
    """First update of a worker; two workers have eight images each, one batch."""
    trainer = workload.trainer(worker, workers)
    trainer.load()
    return trainer.compute(workload.initial_model())[1]


def test_nothing_imports_torch_before_a_model_is_made() -> None:
    program = (
        "import sys, workloads.base, workloads.plda\n"
        "from pathlib import Path\n"
        "from workloads.resnet import Resnet\n"
        "Resnet(name='r', dataset='digits', depth=8, batch_size=8, learning_rate=.1, momentum=0.,"
        " weight_decay=0., seed=0, cache_dir=Path('/nowhere'))\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("depth", "parameters"), [(8, 77_754), (14, 174_970), (20, 272_186)])
def test_parameter_count(tmp_path: Path, depth: int, parameters: int) -> None:
    # ResNet-8 by hand: 176 (input) + 4,672 + 14,528 + 57,728 (stages) + 650 (output); six layers
    # more are 4,672 + 18,560 + 73,984 = 97,216 parameters. The known CIFAR ResNet-20 with
    # projections has 272,474 for three channels: 288 weights more than for one.
    assert tiny_resnet(tmp_path, depth=depth).initial_model().size == parameters


@pytest.mark.parametrize("depth", [2, 7, 9, 10])
def test_impossible_depth_is_a_problem(tmp_path: Path, depth: int) -> None:
    told = f"workload.depth={depth}: must be 6n + 2 with n at least 1: 8, 14, 20, 26, 32, …"
    assert tiny_resnet(tmp_path, depth=depth).problem() == told
    assert tiny_resnet(tmp_path, depth=56).problem() is None


def test_update_is_minus_the_learning_rate_times_the_gradient(tmp_path: Path) -> None:
    # The slope of the loss along a direction, by central differences, against the update.
    workload = tiny_resnet(tmp_path)
    network, data = FlatNetwork(small(8, 1, 10), torch.device("cpu")), tiny_images()
    model, normalize = workload.initial_model(), DATASETS["mnist5k"].normalize

    def loss(parameters: np.ndarray) -> float:
        network.parameters.copy_(torch.from_numpy(parameters))
        with torch.no_grad():
            scores = network.scores(normalize(data["train_images"]))
            return float(functional.cross_entropy(scores, torch.from_numpy(data["train_labels"])))

    whole_batch = tiny_resnet(tmp_path, batch_size=IMAGES, momentum=0.0)
    gradient = update(whole_batch, 0, 1) / -0.1
    direction = gradient / np.linalg.norm(gradient)
    step = 2e-3
    slope = (loss(model + step * direction) - loss(model - step * direction)) / (2 * step)
    assert slope == pytest.approx(np.linalg.norm(gradient), rel=0.02)


def test_momentum_is_the_workers_own(tmp_path: Path) -> None:
    # The same eight images at the same model twice: u2 = -lr (0.9 g + g) = 1.9 u1.
    workload = tiny_resnet(tmp_path)
    trainer = workload.trainer(0, 2)
    trainer.load()
    model = workload.initial_model()
    first = trainer.compute(model)[1]
    kept = first.copy()
    second = trainer.compute(model)[1]
    np.testing.assert_allclose(second, 1.9 * first, rtol=1e-3, atol=1e-5)
    assert np.array_equal(first, kept)


def test_weight_decay_pulls_parameters_to_zero(tmp_path: Path) -> None:
    plain, decayed = tiny_resnet(tmp_path), tiny_resnet(tmp_path, weight_decay=0.5)
    model = plain.initial_model()
    np.testing.assert_allclose(
        update(decayed) - update(plain), -0.1 * 0.5 * model, rtol=1e-3, atol=1e-5
    )


def test_update_is_dense_and_leaves_a_read_only_view_alone(tmp_path: Path) -> None:
    workload = tiny_resnet(tmp_path)
    trainer = workload.trainer(0, 2)
    trainer.load()
    view = workload.initial_model()
    view.flags.writeable = False
    indices, values = trainer.compute(view)
    assert indices is None
    assert values.dtype == np.float32
    assert values.shape == view.shape
    assert np.array_equal(view, workload.initial_model())


def test_warm_up_changes_no_update(tmp_path: Path) -> None:
    workload = tiny_resnet(tmp_path)
    warm = workload.trainer(0, 2)
    warm.warm_up()
    warm.load()
    assert np.array_equal(warm.compute(workload.initial_model())[1], update(workload))


def test_same_seed_repeats_workers_and_seeds_differ(tmp_path: Path) -> None:
    workload, other = tiny_resnet(tmp_path), tiny_resnet(tmp_path, seed=4)
    assert np.array_equal(update(workload, 0), update(tiny_resnet(tmp_path), 0))
    assert not np.array_equal(update(workload, 0), update(workload, 1))
    assert not np.array_equal(workload.initial_model(), other.initial_model())


def test_trainers_of_one_process_share_nothing(tmp_path: Path) -> None:
    # Called in turn, thirty workers do what each would have done alone.
    workload = tiny_resnet(tmp_path, dataset="digits")
    count = 4
    together = [workload.trainer(worker, count) for worker in range(count)]
    for trainer in together:
        trainer.warm_up()
        trainer.load()
    model = workload.initial_model()
    in_turn = [[trainer.compute(model)[1] for trainer in together] for _ in range(3)]
    for worker in range(count):
        alone = workload.trainer(worker, count)
        alone.load()
        for updates in in_turn:
            assert np.array_equal(alone.compute(model)[1], updates[worker])


@pytest.mark.parametrize(("dataset", "onednn"), [("digits", False), ("mnist5k", True)])
def test_small_images_are_trained_without_onednn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dataset: str, onednn: bool
) -> None:
    if not torch.backends.mkldnn.enabled:
        pytest.skip("this torch has no oneDNN")
    seen, plain = [], functional.cross_entropy

    def watched(*arguments: torch.Tensor) -> torch.Tensor:
        seen.append(torch.backends.mkldnn.enabled)
        return plain(*arguments)

    monkeypatch.setattr(functional, "cross_entropy", watched)
    update(tiny_resnet(tmp_path, dataset=dataset))
    assert seen == [onednn]
    assert torch.backends.mkldnn.enabled
