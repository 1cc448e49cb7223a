"""Sixteen made-up images, published where Resnet looks for its prepared data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from workloads.cache import publish
from workloads.resnet import Resnet

IMAGES = 16


def tiny_resnet(cache_dir: Path, **changes: Any) -> Resnet:
    """Return a prepared ResNet-8 workload with 16 training and 20 held-out images."""
    settings: dict[str, Any] = {
        "name": "resnet_mnist5k",
        "dataset": "mnist5k",
        "depth": 8,
        "batch_size": 8,
        "learning_rate": 0.1,
        "momentum": 0.9,
        "weight_decay": 0.0,
        "seed": 3,
        "cache_dir": cache_dir,
    }
    workload = Resnet(**(settings | changes))
    publish(workload.prepared_dir, lambda: tiny_images(workload.images.side))
    return workload


def tiny_images(side: int = 28) -> dict[str, np.ndarray]:
    """Return the arrays that preparing images makes, from a fixed random stream."""
    rng = np.random.default_rng(5)
    end = 256 if side == 28 else 17
    return {
        "train_images": rng.integers(0, end, (IMAGES, side, side)).astype(np.uint8),
        "train_labels": np.arange(IMAGES, dtype=np.int64) % 10,
        "heldout_images": rng.integers(0, end, (20, side, side)).astype(np.uint8),
        "heldout_labels": np.arange(20, dtype=np.int64) % 10,
    }
