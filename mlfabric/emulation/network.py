"""The emulated network: a bridge, one network namespace a host, links shaped both ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyroute2 import IPRoute

from mlfabric.emulation import hosts
from mlfabric.emulation.namespaces import (
    CLONE_NEWNET,
    bind_mount,
    enter_network,
    step,
    unshare,
)
from mlfabric.emulation.shaping import packet_frames_for, shape_for
from mlfabric.emulation.spec import HostSpec
from mlfabric.emulation.tcp import tune

_ROOT_NAMESPACE = Path("/run/root-network")
_LOOPBACK_INDEX = 1
_INITIAL_WINDOW_SEGMENTS = 2

LEAST_BYTES_PER_S = 100.0
"""What carries less carries nothing."""


@dataclass(frozen=True)
class _Link:
    """One host's cable: netlink sockets and interface numbers of both ends."""

    inner: IPRoute
    inner_index: int
    port_index: int


class Network:
    """All hosts' links; to be made inside fresh network and mount namespaces."""

    def __init__(self, specs: Sequence[HostSpec], congestion_control: str) -> None:
        """Build everything; takes about 15 ms a host.

        Raises:
            EmulationUnavailable: the kernel refuses a step; names the step.
        """
        self._specs = tuple(specs)
        self._packet_frames = packet_frames_for(min(s.bandwidth_bytes_per_s for s in specs))
        self._stack = ExitStack()
        with step("create the bridge"):
            hosts.NAMESPACES.mkdir()
            _pin_namespace(_ROOT_NAMESPACE)
            self._root = self._stack.enter_context(IPRoute())
            self._bridge = self._make_bridge()
        self._links = [self._make_host(index, spec) for index, spec in enumerate(specs)]
        with step(f"use congestion control {congestion_control!r}"):
            self._route(congestion_control)
        with step("fill the neighbor tables"):
            self._introduce_hosts()

    def set_rate(self, host_index: int, rate_bytes_per_s: float) -> None:
        """Reshape both directions of a host's link; takes effect at once, keeps what is queued.

        A link of less than `LEAST_BYTES_PER_S` is taken down.
        """
        link = self._links[host_index]
        is_up = rate_bytes_per_s >= LEAST_BYTES_PER_S
        if is_up:
            self._shape(link, rate_bytes_per_s, "change")
        self._root.link("set", index=link.port_index, state="up" if is_up else "down")

    @contextmanager
    def inside(self, host_index: int) -> Iterator[None]:
        """Let the caller open sockets as this host: they stay the host's after it has left."""
        enter_network(hosts.namespace(self._specs[host_index].name))
        try:
            yield
        finally:
            enter_network(_ROOT_NAMESPACE)

    def close(self) -> None:
        self._stack.close()

    def _make_bridge(self) -> int:
        self._root.link("add", ifname=hosts.BRIDGE, kind="bridge")
        index: int = self._root.link_lookup(ifname=hosts.BRIDGE)[0]
        self._root.addr(
            "add", index=index, address=hosts.BRIDGE_ADDRESS, prefixlen=hosts.PREFIX_LENGTH
        )
        self._root.link("set", index=_LOOPBACK_INDEX, state="up")
        self._start(self._root, index)
        return index

    def _make_host(self, index: int, spec: HostSpec) -> _Link:
        with step(f"create the network namespace of {spec.name}"):
            unshare(CLONE_NEWNET)
            _pin_namespace(hosts.namespace(spec.name))
            tune(spec.bandwidth_bytes_per_s)
            inner = self._stack.enter_context(IPRoute())
            enter_network(_ROOT_NAMESPACE)
        with step(f"connect {spec.name} to the bridge"):
            link = self._connect(index, spec, inner)
        with step(f"shape the link of {spec.name} (tbf)"):
            self._shape(link, spec.bandwidth_bytes_per_s, "add")
        return link

    def _connect(self, index: int, spec: HostSpec, inner: IPRoute) -> _Link:
        port = f"port{index}"
        far_end = {
            "ifname": hosts.INTERFACE,
            "net_ns_fd": str(hosts.namespace(spec.name)),
            "address": hosts.hardware_address(index),
        }
        self._root.link("add", ifname=port, kind="veth", peer=far_end)
        port_index = self._root.link_lookup(ifname=port)[0]
        self._root.link("set", index=port_index, master=self._bridge)
        self._start(self._root, port_index)
        inner_index = inner.link_lookup(ifname=hosts.INTERFACE)[0]
        inner.link("set", index=_LOOPBACK_INDEX, state="up")
        inner.addr(
            "add", index=inner_index, address=hosts.address(index), prefixlen=hosts.PREFIX_LENGTH
        )
        self._start(inner, inner_index)
        return _Link(inner, inner_index, port_index)

    def _start(self, netlink: IPRoute, index: int) -> None:
        """Bring an interface up, its packets kept small enough for every token bucket."""
        netlink.link("set", index=index, gso_max_segs=self._packet_frames, state="up")

    def _shape(self, link: _Link, rate_bytes_per_s: float, command: str) -> None:
        """The inner end shapes what the host sends, the bridge's end what it receives."""
        shape = shape_for(rate_bytes_per_s, self._packet_frames)
        ends = (
            (link.inner, link.inner_index, shape.egress_queue_bytes),
            (self._root, link.port_index, shape.ingress_queue_bytes),
        )
        for netlink, index, queue_bytes in ends:
            netlink.tc(
                command,
                "tbf",
                index,
                handle="1:",
                rate=shape.rate_bytes_per_s,
                burst=shape.burst_bytes,
                limit=queue_bytes,
            )

    def _route(self, congestion_control: str) -> None:
        """Set it by route: the sysctl takes only what the machine allows to everyone.

        On paths as short as ours a small initial window costs no time, and eight senders that start
        at once overrun a slow receiver's queue with a large one.
        """
        for link in self._links:
            link.inner.route(
                "replace",
                dst=hosts.SUBNET,
                oif=link.inner_index,
                scope="link",
                metrics={"cc_algo": congestion_control, "initcwnd": _INITIAL_WINDOW_SEGMENTS},
            )

    def _introduce_hosts(self) -> None:
        """Fill neighbor tables: a question lost in a full queue would cost its asker a second."""
        for index, link in enumerate(self._links):
            for peer in range(len(self._links)):
                if peer != index:
                    link.inner.neigh(
                        "add",
                        dst=hosts.address(peer),
                        lladdr=hosts.hardware_address(peer),
                        ifindex=link.inner_index,
                        state="permanent",
                    )


def _pin_namespace(path: Path) -> None:
    """Give the calling thread's network namespace a name that it can be entered by."""
    path.touch()
    bind_mount(Path("/proc/thread-self/ns/net"), path)
