"""For Keras scripts (TensorFlow backend): a distributed optimizer.

    import mlfabric.keras as mlf

    mlf.init(mode="sync")                              # or async, ssp
    model.compile(optimizer=mlf.DistributedOptimizer(keras.optimizers.SGD(0.1), model), ...)
    model.fit(...)
    mlf.shutdown()

Modes, and which rank does what, are those of `mlfabric.torch`.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from mlfabric import api
from mlfabric.api import Params, rank, shutdown, size, worker, workers
from mlfabric.errors import MlfabricError

__all__ = ["DistributedOptimizer", "init", "shutdown", "worker", "workers"]

_params: list[Params] = []


def init(mode: api.Mode = "sync", **settings: Any) -> None:
    """Say how to train together; `settings` are those of `api.Params`. Raises SettingError."""
    _params[:] = [Params.of(mode, settings)]
    if mode == "sync":
        api.register_as_worker(_params[0])
    atexit.register(shutdown)


def DistributedOptimizer(
    optimizer: keras.optimizers.Optimizer, model: keras.Model
) -> keras.optimizers.Optimizer:
    """The optimizer, whose steps now train together with the other workers'.

    The model must be built; all start from rank 0's (sync) or the server's weights. Raises
    MlfabricError before `init`.
    """
    if not _params:
        raise MlfabricError("DistributedOptimizer: must come after mlfabric.keras.init")
    variables = model.trainable_variables
    if not variables:
        raise MlfabricError("DistributedOptimizer: the model must be built first")
    if _params[0].mode == "sync":
        _average(optimizer, variables)
    else:
        _push(optimizer, variables, _params[0])
    return optimizer


def _average(optimizer: keras.optimizers.Optimizer, variables: Sequence[Any]) -> None:
    own = _flat([v.numpy() for v in variables])
    _assign(variables, api.all_reduce(own if rank() == 0 else np.zeros_like(own)))
    original = optimizer.apply

    def averaged(flat: NDArray[np.float32]) -> NDArray[np.float32]:
        total: NDArray[np.float32] = api.all_reduce(flat)
        total /= size()
        return total

    def apply(grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> Any:
        flat = tf.concat([tf.reshape(g, [-1]) for g in grads], 0)
        total = tf.numpy_function(averaged, [flat], tf.float32, stateful=True)
        parts = tf.split(total, [int(np.prod(g.shape)) for g in grads])
        shaped = [tf.reshape(part, g.shape) for part, g in zip(parts, grads, strict=True)]
        return original(shaped, trainable_variables)

    optimizer.apply = apply


def _push(optimizer: keras.optimizers.Optimizer, variables: Sequence[Any], params: Params) -> None:
    model = _flat([v.numpy() for v in variables])
    if api.role(params) != "worker":
        api.serve(params, model)
        sys.exit(0)
    api.register_as_worker(params, model)
    api.get(model)
    _assign(variables, model)
    original = optimizer.apply

    def exchange(after: NDArray[np.float32]) -> NDArray[np.float32]:
        api.push(after - model)
        api.get(model)
        return model.copy()

    def apply(grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> Any:
        result = original(grads, trainable_variables)
        flat = tf.concat([tf.reshape(v, [-1]) for v in variables], 0)
        pulled = tf.numpy_function(exchange, [flat], tf.float32, stateful=True)
        parts = tf.split(pulled, [int(np.prod(v.shape)) for v in variables])
        for variable, part in zip(variables, parts, strict=True):
            variable.assign(tf.reshape(part, variable.shape))
        return result

    optimizer.apply = apply


def _flat(arrays: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    joined: NDArray[np.float32] = np.concatenate([array.ravel() for array in arrays])
    return joined


def _assign(variables: Sequence[Any], values: NDArray[np.float32]) -> None:
    place = 0
    for variable in variables:
        count = int(np.prod(variable.shape))
        variable.assign(values[place : place + count].reshape(variable.shape))
        place += count
