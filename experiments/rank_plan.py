"""Typed settings to the plan of real ranks: their folder, the emulator's rates, the watchdog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from experiments.plan import common_plan, policy_context
from experiments.schema import RunConfig
from experiments.sections import MpiEngineConfig
from mlfabric.engines.mpi.plan import RankPlan
from mlfabric.topology import BIG_SWITCH


def rank_plan(
    config: RunConfig,
    run_dir: Path,
    conserved: bool,
    read_rates: Callable[[float], Sequence[float]] | None,
    paced: bool,
) -> RankPlan:
    """What the ranks of a run are told (see `RankPlan`); `model0.npy` lies in the run folder."""
    assert isinstance(config.engine, MpiEngineConfig)
    model_bytes = np.load(run_dir / "model0.npy", mmap_mode="r").nbytes
    lines = dict.fromkeys(config.hosts, config.cluster.bandwidth_bytes_per_s)
    return RankPlan(
        **common_plan(config, conserved),
        context=policy_context(config, model_bytes, BIG_SWITCH, lines),
        run_dir=run_dir,
        read_rates=read_rates,
        paced=paced,
        watchdog_s=config.engine.watchdog_s,
        lost_after_s=config.engine.lost_after_s,
    )
