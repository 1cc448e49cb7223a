"""Where an emulated host lives: its network namespace and its address."""

from __future__ import annotations

from pathlib import Path

from mlfabric.emulation.namespaces import enter_network
from mlfabric.errors import EmulationError

NAMESPACES = Path("/run/netns")
INTERFACE = "eth0"
BRIDGE = "fabric"
BRIDGE_ADDRESS = "10.77.0.254"
PREFIX_LENGTH = 16
SUBNET = "10.77.0.0/16"
MAX_HOSTS = 253


def address(index: int) -> str:
    """IPv4 address of the host with this index (rank order, from 0)."""
    return f"10.77.0.{index + 1}"


def hardware_address(index: int) -> str:
    """Ethernet address of the host with this index, fixed so that nobody has to ask for it."""
    return f"02:00:0a:4d:00:{index + 1:02x}"


def namespace(name: str) -> Path:
    """File that stands for the host's network namespace, inside the bubble."""
    return NAMESPACES / name


def enter(name: str) -> None:
    """Move the caller into a host's network namespace; to be called before MPI starts.

    Raises:
        EmulationError: no such host, or called outside a bubble.
    """
    try:
        enter_network(namespace(name))
    except OSError as error:
        raise EmulationError(f"cannot enter host {name!r}: {error.strerror}") from error
