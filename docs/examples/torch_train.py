"""mpiexec -n 4 python docs/examples/torch_train.py [sync|async|ssp]: digits, PyTorch."""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

import mlfabric.torch as mlf

mlf.init(mode=sys.argv[1] if len(sys.argv) > 1 else "sync")  # new
torch.set_num_threads(1)
torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
images = torch.tensor(images / 16, dtype=torch.float32)
labels = torch.tensor(labels)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
optimizer = mlf.DistributedOptimizer(optimizer, model)  # new
batch, loss_of = 128, nn.CrossEntropyLoss()

for step in range(60):
    first = (step * batch) % 1664
    mine = slice(first + mlf.worker(), first + batch, mlf.workers())  # new: my share of the batch
    optimizer.zero_grad()
    loss_of(model(images[mine]), labels[mine]).backward()
    optimizer.step()

if mlf.worker() == 0:
    print(f"loss {loss_of(model(images), labels).item():.6f}")
mlf.shutdown()  # new
