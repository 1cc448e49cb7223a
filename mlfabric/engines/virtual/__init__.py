"""The virtual clock: the same roles and policies over a network of flows."""

from mlfabric.engines.virtual.main import run
from mlfabric.engines.virtual.plan import VirtualPlan, Wire

__all__ = ["VirtualPlan", "Wire", "run"]
