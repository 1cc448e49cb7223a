"""Residual networks for classifying images, in PyTorch and in TensorFlow, whatever the images."""
