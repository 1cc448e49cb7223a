"""Training in TensorFlow: a Keras model that is a function of one flat vector."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from numpy.typing import NDArray

from workloads.images.blueprint import Blueprint, Convolution, Unit
from workloads.images.sgd import Momentum, Sgd
from workloads.images.source import Batch

EPSILON = 1e-5
"""Of batch normalization, as in PyTorch."""


class KerasStep:
    """Gradient steps; the vector is copied into TensorFlow once, its gradient once out of it.

    Slices of the vector are the model's weights inside the traced function, so that its gradient
    comes as one vector, too.
    """

    def __init__(self, blueprint: Blueprint, sgd: Sgd, shape: tuple[int, int, int]) -> None:
        _use_one_thread()
        self._model, self._order = _model(blueprint, shape)
        self._shapes = list(blueprint.shapes())
        self._momentum = Momentum(sgd, np.zeros(blueprint.size, np.float32))
        self._gradient = tf.function(self._traced, reduce_retracing=True)

    def __call__(self, view: NDArray[np.float32], batch: Batch) -> NDArray[np.float32]:
        """Return the update float32[size] of one minibatch at `view`: a fresh array."""
        gradient = self._gradient(tf.constant(view), tf.constant(batch.images), batch.labels)
        return np.asarray(self._momentum.update(gradient.numpy(), view))

    def forget(self) -> None:
        """Start with no momentum."""
        self._momentum.forget()

    def memory(self) -> NDArray[np.float32]:
        """Return a copy of the momentum buffer: float32[size]."""
        return np.array(self._momentum.buffer)

    def remember(self, memory: NDArray[np.float32]) -> None:
        """Go on with another step's momentum."""
        self._momentum.buffer[:] = memory

    def _traced(self, flat: Any, images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(flat)
            scores, _ = self._model.stateless_call(
                self._weights(flat), self._model.non_trainable_variables, images, training=True
            )
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)
            loss = tf.reduce_mean(losses)
        return tape.gradient(loss, flat)

    def _weights(self, flat: Any) -> list[Any]:
        """The vector's slices in the shapes and the order of the model's trainable variables."""
        parts = tf.split(flat, [math.prod(shape) for shape in self._shapes])
        shaped = []
        for part, shape in zip(parts, self._shapes, strict=True):
            weights = tf.reshape(part, shape)
            if (
                len(shape) == 4
            ):  # (outputs, height, width, inputs) to (height, width, inputs, outputs)
                weights = tf.transpose(weights, (1, 2, 3, 0))
            elif len(shape) == 2:
                weights = tf.transpose(weights)
            shaped.append(weights)
        return [shaped[place] for place in self._order]


def _use_one_thread() -> None:
    """And keep it to the processor."""
    try:
        tf.config.set_visible_devices([], "GPU")
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:
        return  # TensorFlow has begun work, with the threads that it was told then


def _model(blueprint: Blueprint, shape: tuple[int, int, int]) -> tuple[keras.Model, list[int]]:
    """The model, and for each of its trainable variables its place among the blueprint's shapes."""
    owned: list[layers.Layer] = []

    def kept(layer: layers.Layer) -> layers.Layer:
        owned.append(layer)
        return layer

    def normalized(one: Convolution, inputs: Any) -> Any:
        if one.size > 1:  # "same" of Keras would pad strided convolutions on one side alone
            inputs = layers.ZeroPadding2D(one.size // 2)(inputs)
        convolution = kept(layers.Conv2D(one.outputs, one.size, one.stride, use_bias=False))
        return kept(layers.BatchNormalization(epsilon=EPSILON))(convolution(inputs))

    def residual(unit: Unit, inputs: Any) -> Any:
        inner = inputs
        for index, one in enumerate(unit.convolutions):
            inner = normalized(one, layers.ReLU()(inner) if index else inner)
        shortcut = inputs if unit.projection is None else normalized(unit.projection, inputs)
        return layers.ReLU()(layers.Add()([inner, shortcut]))

    images = keras.Input(shape)
    inner = layers.ReLU()(normalized(blueprint.stem, images))
    if (
        blueprint.pooled
    ):  # values are not negative here, so that zeros pad a maximum as nothing would
        inner = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(inner))
    for unit in blueprint.units:
        inner = residual(unit, inner)
    means = layers.GlobalAveragePooling2D()(inner)
    model = keras.Model(images, kept(layers.Dense(blueprint.classes))(means))
    places = {id(v): place for place, v in enumerate(_trainable(owned))}
    return model, [places[id(variable)] for variable in model.trainable_variables]


def _trainable(owned: list[layers.Layer]) -> list[Any]:
    return [variable for layer in owned for variable in layer.trainable_variables]
