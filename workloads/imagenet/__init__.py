"""ResNet-50 and deeper on images in files: ImageNet as it is usually laid out."""

from workloads.imagenet.workload import Imagenet

__all__ = ["Imagenet"]
