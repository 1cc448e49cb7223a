"""mpiexec -n 4 python docs/examples/torch_ddp.py: digits, DistributedDataParallel."""

import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn

import mlfabric.torch as mlf

mlf.init()  # new
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29517")  # a free one
dist.init_process_group("gloo", rank=mlf.worker(), world_size=mlf.workers())
torch.set_num_threads(1)
torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
images = torch.tensor(images / 16, dtype=torch.float32)
labels = torch.tensor(labels)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
model = nn.parallel.DistributedDataParallel(model)
model.register_comm_hook(None, mlf.allreduce_hook)  # new
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
batch, loss_of = 128, nn.CrossEntropyLoss()

for step in range(60):
    first = (step * batch) % 1664
    mine = slice(first + mlf.worker(), first + batch, mlf.workers())
    optimizer.zero_grad()
    loss_of(model(images[mine]), labels[mine]).backward()
    optimizer.step()

if mlf.worker() == 0:
    print(f"loss {loss_of(model(images), labels).item():.6f}")
dist.destroy_process_group()
mlf.shutdown()  # new
