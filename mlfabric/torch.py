"""For PyTorch scripts: a distributed optimizer, and a communication hook for DDP.

    import mlfabric.torch as mlf

    mlf.init(mode="sync")                              # or async, ssp
    optimizer = mlf.DistributedOptimizer(optimizer, model)
    ...                                                # the training loop stays as it is
    mlf.shutdown()

In mode sync every rank is a worker, gradients are averaged over all of them, in buckets that set
out while the backward pass goes on, and training comes to what one process does with the total
batch. In async and ssp, rank 0 schedules and rank 1 serves: `DistributedOptimizer` takes their part
there and ends the process when all workers have left; a worker's step is pushed as an update, and
the next model pulled.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mlfabric import api
from mlfabric.api import Params, rank, shutdown, size, worker, workers
from mlfabric.errors import MlfabricError, SettingError

__all__ = [
    "DistributedOptimizer",
    "Params",
    "allreduce_hook",
    "init",
    "shutdown",
    "worker",
    "workers",
]

BUCKET_BYTES = 4_000_000
"""Gradients that travel together [ours]."""

_params: list[Params] = []


def init(mode: api.Mode = "sync", **settings: Any) -> None:
    """Say how to train together; `settings` are those of `api.Params`. Raises SettingError."""
    _params[:] = [Params.of(mode, settings)]
    if mode == "sync":
        api.register_as_worker(_params[0])
    atexit.register(shutdown)


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer, model: torch.nn.Module, bucket_bytes: int = BUCKET_BYTES
) -> torch.optim.Optimizer:
    """The optimizer, whose `step` now trains together with the other workers'.

    All ranks must have built the same model, and start from rank 0's (sync) or the server's
    weights. Parameters must be float32. In mode sync each backward pass must be followed by a step,
    which first replaces gradients by their averages: what clips them must do so in a step pre-hook
    of its own, registered later. Raises MlfabricError before `init`, SettingError for parameters
    of another dtype.
    """
    if not _params:
        raise MlfabricError("DistributedOptimizer: must come after mlfabric.torch.init")
    parameters = [p for p in model.parameters() if p.requires_grad]
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and parameter.dtype != torch.float32:
            raise SettingError(f"{name}: {parameter.dtype}; must be torch.float32")
    if _params[0].mode == "sync":
        _Averaging(optimizer, parameters, bucket_bytes)
    else:
        _Pushing(optimizer, parameters, _params[0])
    return optimizer


def allreduce_hook(state: object, bucket: Any) -> torch.futures.Future[torch.Tensor]:
    """For `DistributedDataParallel.register_comm_hook(None, allreduce_hook)`: averages buckets.

    `bucket` is a `torch.distributed.GradBucket`. DDP itself needs a process group, of gloo for
    example; gradients do not travel through it.
    """
    gradient = bucket.buffer()
    averaged: torch.futures.Future[torch.Tensor] = torch.futures.Future()

    def arrived(total: Future[NDArray[Any]]) -> None:
        averaged.set_result(torch.from_numpy(total.result()).to(gradient.device).div_(size()))

    api.all_reduce_async(gradient.detach().cpu().numpy()).add_done_callback(arrived)
    return averaged


allreduce_hook.__annotations__ = {}  # DDP compares them with its classes; ours are texts


class _Averaging:
    """Averages gradients before each step; buckets set out as they become ready, in order."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        parameters: list[torch.nn.Parameter],
        bucket_bytes: int,
    ) -> None:
        self._buckets = _buckets(parameters, bucket_bytes)
        self._bucket_of = {p: number for number, ps in enumerate(self._buckets) for p in ps}
        self._waiting = [len(bucket) for bucket in self._buckets]
        self._sums: list[Future[NDArray[Any]]] = []
        _broadcast(parameters)
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(self._ready)  # type: ignore[no-untyped-call]
        _before_step(optimizer, self._average)

    def _ready(self, parameter: torch.Tensor) -> None:
        if self._bucket_of[parameter] < len(self._sums):  # type: ignore[index]
            raise MlfabricError(
                "gradients: a second backward pass before a step; each must be followed by one"
            )
        self._waiting[self._bucket_of[parameter]] -= 1  # type: ignore[index]
        while len(self._sums) < len(self._buckets) and self._waiting[len(self._sums)] <= 0:
            self._send()

    def _send(self) -> None:
        """Buckets go in their order, whichever is ready first: all ranks must agree on it."""
        bucket = self._buckets[len(self._sums)]
        self._sums.append(api.all_reduce_async(_flat(_gradient(p) for p in bucket)))

    def _average(self) -> None:
        while len(self._sums) < len(self._buckets):  # some have no gradient
            self._send()
        for bucket, total in zip(self._buckets, self._sums, strict=True):
            averaged = total.result() / np.float32(size())
            for parameter, values in zip(bucket, _split(averaged, bucket), strict=True):
                parameter.grad = values.to(parameter.device)
        self._waiting = [len(bucket) for bucket in self._buckets]
        self._sums = []


class _Pushing:
    """Pushes what a step has changed, and pulls the model for the next one."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        parameters: list[torch.nn.Parameter],
        params: Params,
    ) -> None:
        self._parameters = parameters
        self._model = _flat(parameters)
        if api.role(params) != "worker":
            api.serve(params, self._model)
            sys.exit(0)
        api.register_as_worker(params, self._model)
        self._pull()
        original = optimizer.step

        def step(closure: Callable[[], float] | None = None) -> float | None:
            loss = original(closure) if closure is not None else original()
            api.push(_flat(self._parameters) - self._model)
            self._pull()
            return loss

        optimizer.step = step  # type: ignore[method-assign,assignment]

    def _pull(self) -> None:
        api.get(self._model)
        _fill(self._parameters, self._model)


def _before_step(optimizer: torch.optim.Optimizer, call: Callable[[], None]) -> None:
    optimizer.register_step_pre_hook(lambda *_: call())


def _broadcast(parameters: list[torch.nn.Parameter]) -> None:
    """All start from rank 0's weights."""
    own = _flat(parameters)
    _fill(parameters, api.all_reduce(own if rank() == 0 else np.zeros_like(own)))


def _buckets(
    parameters: list[torch.nn.Parameter], bucket_bytes: int
) -> list[list[torch.nn.Parameter]]:
    """Last parameters first, as the backward pass comes to them."""
    buckets: list[list[torch.nn.Parameter]] = [[]]
    filled = 0
    for parameter in reversed(parameters):
        if filled >= bucket_bytes:
            buckets.append([])
            filled = 0
        buckets[-1].append(parameter)
        filled += parameter.nbytes
    return buckets


def _fill(parameters: list[torch.nn.Parameter], values: NDArray[Any]) -> None:
    with torch.no_grad():
        for parameter, part in zip(parameters, _split(values, parameters), strict=True):
            parameter.copy_(part)


def _gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _flat(tensors: Iterable[torch.Tensor]) -> NDArray[np.float32]:
    """A copy of all, one after another."""
    parts = [tensor.detach().cpu().numpy().ravel() for tensor in tensors]
    joined: NDArray[np.float32] = np.concatenate(parts)
    return joined


def _split(values: NDArray[Any], like: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Parts of a vector in the shapes of these tensors; they share its memory."""
    found, place = [], 0
    for tensor in like:
        part = values[place : place + tensor.numel()]
        found.append(torch.from_numpy(part).view(tensor.shape))
        place += tensor.numel()
    return found
