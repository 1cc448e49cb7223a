"""mpiexec -n 4 python docs/examples/keras_train.py [sync|async|ssp]: digits, Keras."""

import os
import sys

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
import keras
import numpy as np
from sklearn.datasets import load_digits

import mlfabric.keras as mlf

mlf.init(mode=sys.argv[1] if len(sys.argv) > 1 else "sync")  # new
keras.utils.set_random_seed(0)
images, labels = load_digits(return_X_y=True)
images = (images / 16).astype(np.float32)
layers = [keras.Input((64,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(10)]
model = keras.Sequential(layers)
optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
model.compile(
    optimizer=mlf.DistributedOptimizer(optimizer, model),  # new
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)
batch = 128
for step in range(60):
    first = (step * batch) % 1664
    mine = slice(first + mlf.worker(), first + batch, mlf.workers())  # new: my share of the batch
    model.train_on_batch(images[mine], labels[mine])

if mlf.worker() == 0:
    print(f"loss {float(model.evaluate(images, labels, verbose=0)):.6f}")
mlf.shutdown()  # new
