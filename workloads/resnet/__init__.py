"""A CIFAR-style residual network on small gray images; torch is imported where one is built."""

from workloads.resnet.workload import Resnet

__all__ = ["Resnet"]
