"""Loss and accuracy on held-out images, batch-norm statistics estimated anew.

Scores are PyTorch's, whichever framework trains: the model is the same vector.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from workloads.images.blueprint import Blueprint
from workloads.images.source import Images
from workloads.images.torch_network import FlatNetwork, use_one_thread


class ImageEvaluator:
    """Scores a parameter vector on the held-out images.

    Running statistics are no part of an update, so they are estimated from training batches for
    every model that is scored: always the same images. Batches are read anew each time, so that any
    number of images can be scored.
    """

    def __init__(self, blueprint: Blueprint, images: Images, device: torch.device) -> None:
        use_one_thread()
        self._network = FlatNetwork(blueprint, device)
        for norm in self._network.norms():
            norm.momentum = None  # cumulative mean over the batches instead of a decaying one
        self._images = images

    def evaluate(self, model: NDArray[np.float32]) -> dict[str, float]:
        """Return {"heldout_loss": mean cross entropy in nats, "heldout_accuracy": 0..1}."""
        network = self._network
        network.parameters.copy_(torch.from_numpy(np.ascontiguousarray(model)))
        with torch.inference_mode():
            for norm in network.norms():
                norm.reset_running_stats()
            network.module.train()
            for batch in self._images.statistics():
                network.scores(batch.images)
            network.module.eval()
            scores, labels = [], []
            for batch in self._images.heldout():
                scores.append(network.scores(batch.images).cpu())
                labels.append(torch.from_numpy(batch.labels))
            found, known = torch.cat(scores), torch.cat(labels)
            loss = functional.cross_entropy(found, known)
            right = found.argmax(dim=1) == known
        return {"heldout_loss": float(loss), "heldout_accuracy": float(right.float().mean())}

    def report(self, model: NDArray[np.float32]) -> dict[str, str]:
        """Nothing to read."""
        return {}
