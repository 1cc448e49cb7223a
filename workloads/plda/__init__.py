"""Latent Dirichlet allocation by collapsed Gibbs sampling, documents divided over the workers."""

from workloads.plda.workload import Plda

__all__ = ["Plda"]
