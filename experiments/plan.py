"""Typed settings to what ranks and the emulated cluster are told."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from experiments.schema import RunConfig
from mlfabric.emulation.spec import RateEvent
from mlfabric.emulation.stragglers import (
    ComputeStragglers,
    NetworkStragglers,
    compute_factor,
    network_events,
    read_trace,
)
from mlfabric.engines.mpi.plan import RankPlan
from mlfabric.policies.base import PolicyContext

SCHEDULER, SERVER = "scheduler", "server"

CHUNK_S = 0.01
MIN_CHUNK_BYTES, MAX_CHUNK_BYTES = 8_192, 65_536
"""A chunk lasts about 10 ms at line rate: short enough to time and to forward, long enough not to
cost a core at 25 Mbit/s; 64 KB segments did best at 100 Mbit/s [ours]."""

TRACE_MARGIN_S = 60.0
"""How far the straggler trace reaches past the time limit."""


def workers(config: RunConfig) -> tuple[str, ...]:
    """Names of the worker hosts."""
    return tuple(f"w{number}" for number in range(1, config.cluster.workers + 1))


def hosts(config: RunConfig) -> tuple[str, ...]:
    """Names of all hosts in rank order."""
    return (SCHEDULER, SERVER, *workers(config))


def chunk_bytes(config: RunConfig) -> int:
    """Largest message that the transport sends."""
    if config.engine.chunk_bytes is not None:
        return config.engine.chunk_bytes
    wanted = int(config.cluster.bandwidth_bytes_per_s * CHUNK_S)
    return min(max(wanted, MIN_CHUNK_BYTES), MAX_CHUNK_BYTES) // 4096 * 4096


def straggler_events(config: RunConfig) -> list[RateEvent]:
    """The network trace of this run: the same for every policy under one seed."""
    if config.network.trace_file is not None:
        return read_trace(Path(config.network.trace_file))
    stragglers = NetworkStragglers(
        config.network.probability, config.network.factor, config.network.period_s
    )
    slowed = workers(config) + ((SERVER,) if config.network.include_server else ())
    horizon_s = config.engine.max_seconds + TRACE_MARGIN_S
    return network_events(stragglers, slowed, config.seed, horizon_s)


def computation_s(config: RunConfig) -> Callable[[int, int], float]:
    """Emulated seconds of a worker's iteration."""
    stragglers = ComputeStragglers(config.compute.probability, config.compute.max_factor)
    nominal_s, seed = config.cluster.compute_s, config.seed
    return lambda worker, i: nominal_s * compute_factor(stragglers, seed, worker, i)


def rank_plan(
    config: RunConfig,
    run_dir: Path,
    conserved: bool,
    read_rates: Callable[[], Sequence[float]] | None,
) -> RankPlan:
    """What the ranks of a run are told; `model0.npy` lies in the run folder."""
    names = hosts(config)
    model_bytes = np.load(run_dir / "model0.npy", mmap_mode="r").nbytes
    context = PolicyContext(
        server=SERVER,
        workers=workers(config),
        line_bytes_per_s=dict.fromkeys(names, config.cluster.bandwidth_bytes_per_s),
        model_bytes=model_bytes,
        chunk_bytes=chunk_bytes(config),
        straggler_period_s=config.network.period_s,
        seed=config.seed,
        options=dataclasses.asdict(config.policy) | {"delay_bound": config.delay_bound},
    )
    return RankPlan(
        run_dir=run_dir,
        hosts=names,
        policy=config.policy.name,
        context=context,
        conserved=conserved,
        step_scale=1.0 if conserved else config.policy.step_scale,
        nominal_s=config.cluster.compute_s,
        computation_s=computation_s(config),
        read_rates=read_rates,
        max_seconds=config.engine.max_seconds,
        snapshot_interval_s=config.engine.snapshot_interval_s,
        watchdog_s=config.engine.watchdog_s,
    )
