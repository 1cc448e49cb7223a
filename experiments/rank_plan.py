"""Typed settings to the plan of real ranks: their folder, the emulator's rates, the watchdog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from experiments.plan import common_plan, policy_context
from experiments.rows import read_rows
from experiments.run_folder import parts_of
from experiments.schema import RunConfig
from experiments.sections import MpiEngineConfig
from mlfabric.checkpoints import Checkpoints
from mlfabric.engines.mpi.plan import SCHEDULER_RANK, RankPlan
from mlfabric.engines.mpi.records import records_path
from mlfabric.engines.plan import Fault
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
    common = common_plan(config, conserved)
    interval_s = config.engine.checkpoint_interval_s
    return RankPlan(
        **{**common, "faults": _left(common["faults"], run_dir)},
        context=policy_context(config, model_bytes, BIG_SWITCH, lines),
        run_dir=run_dir,
        read_rates=read_rates,
        paced=paced,
        watchdog_s=config.engine.watchdog_s,
        lost_after_s=config.engine.lost_after_s,
        checkpoint=Checkpoints(run_dir).latest(),
        checkpoint_interval_s=interval_s if config.resume == "auto" else None,
        part=parts_of(run_dir),
    )


def _left(faults: Sequence[Fault], run_dir: Path) -> tuple[Fault, ...]:
    """Faults that no earlier part of the run has had."""
    if not faults:
        return ()
    path = records_path(run_dir, SCHEDULER_RANK)
    had = {row["due_s"] for row in read_rows(path, whole=False) if row["row"] == "fault"}
    return tuple(fault for fault in faults if fault.at_s not in had)
