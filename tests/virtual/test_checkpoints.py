"""A run that is saved and goes on is the run that was never interrupted, row by row."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from experiments.paths import ROOT
from mlfabric.engines.plan import Fault
from mlfabric.engines.virtual import Wire, run
from mlfabric.pickling import dumps, loads
from mlfabric.policies.base import Replication
from tests.support.virtual import virtual_plan
from tests.virtual.test_runs import COLLECTIVE, ENTRIES, SIZE, STRAGGLERS, VARIANTS, Counter

MOMENTUM = [v for v, (name, _) in VARIANTS.items() if name in ("sync_ps", "mlfabric_s")]


class Counting(Counter):
    """As `Counter`, and its generator can be saved."""

    def state(self):
        return self._rng.bit_generator.state

    def restore(self, state):
        assert self.loaded
        self._rng.bit_generator.state = state


class Gradients(Counting):
    """Dense steps towards zero."""

    def compute(self, view):
        assert self.loaded
        return None, (self._rng.normal(size=SIZE) - 0.1 * view).astype(np.float32)


class Every:
    """Saves before every `events`-th event."""

    def __init__(self, events, last=None):
        self.last = last
        self.kept = []
        self._events = events
        self._asked = 0

    def due(self):
        self._asked += 1
        return self._asked % self._events == 0

    def save(self, data, elapsed_s):
        self.kept.append((data, elapsed_s))


def one_run(variant, saves, *, counts=True, workers=5, **changes):
    """Rows and snapshots of a run."""
    policy, options = VARIANTS[variant]
    bound = 6 if "delay_bound" in options or policy in ("mlfabric_a", "async_bounded") else None
    plan = virtual_plan(
        policy,
        workers,
        options={**options, **changes.pop("options", {}), "delay_bound": bound},
        conserved=counts,
        rate_events=STRAGGLERS,
        wire=Wire(byte_scale=100.0 if counts else 1.0),
        max_seconds=3.0,
        **changes,
    )
    found = []
    rows = run(
        plan,
        np.zeros(SIZE, np.int32 if counts else np.float32),
        Counting if counts else Gradients,
        lambda model, version, elapsed: found.append((model.copy(), version, elapsed)),
        lambda *seen: None,
        saves,
    )
    return rows, found


def check_goes_on_exactly(variant, **settings):
    """From wherever it was saved, it ends as it would have, and saving changes nothing."""
    saves = Every(12)
    rows, found = one_run(variant, saves, **settings)
    assert (rows, len(found)) == (one_run(variant, None, **settings)[0], len(found))
    assert len(saves.kept) >= 2
    for data, elapsed_s in saves.kept[:: max(len(saves.kept) // 2, 1)]:
        saves = Every(30, data)
        again, later = one_run(variant, saves, **settings)
        assert again == rows
        for more, _ in saves.kept[:1]:
            assert one_run(variant, Every(50, more), **settings)[0] == rows
        expected = [seen for seen in found if seen[2] >= elapsed_s][-len(later) :]
        assert [seen[1:] for seen in later] == [seen[1:] for seen in expected]
        for (model, _, _), (wanted, _, _) in zip(later, expected, strict=True):
            np.testing.assert_array_equal(model, wanted)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_saved_run_goes_on_exactly(variant):
    check_goes_on_exactly(variant)


@pytest.mark.parametrize("variant", [*COLLECTIVE, "async_ps", "mlfabric_ssp pipelined"])
def test_so_does_one_of_gradients(variant):
    check_goes_on_exactly(variant, counts=False)


@pytest.mark.parametrize("variant", MOMENTUM)
def test_what_a_server_remembers_of_earlier_steps_is_saved(variant):
    check_goes_on_exactly(variant, counts=False, options={"momentum": 0.9})


@pytest.mark.parametrize("variant", ["async_ps", "mlfabric_a pipelined"])
def test_so_are_the_shards_of_several_servers(variant):
    check_goes_on_exactly(variant, servers=3)


@pytest.mark.parametrize("kind", ["chain", "bounded"])
def test_so_is_a_replica_that_is_to_serve_after_a_fault_to_come(kind):
    bound = 6.0 * ENTRIES if kind == "bounded" else None
    check_goes_on_exactly(
        "mlfabric_a pipelined",
        replication=Replication("replica", kind, bound),
        faults=(Fault("kill", 0.9, "server"), Fault("kill", 2.0, "w3")),
    )


RESTORED = """
import sys
from pathlib import Path
from tests.virtual.test_checkpoints import Every, digest, one_run
print(digest(one_run("mlfabric_a pipelined", Every(10**9, Path(sys.argv[1]).read_bytes()))[0]))
"""


def digest(rows):
    """Of rows, in their order."""
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def test_a_process_that_orders_its_sets_otherwise_goes_on_exactly(tmp_path):
    saves = Every(40)
    rows, _ = one_run("mlfabric_a pipelined", saves)
    (tmp_path / "saved").write_bytes(saves.kept[1][0])
    command = [sys.executable, "-c", RESTORED, str(tmp_path / "saved")]
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
        assert done.stdout.strip() == digest(rows), done.stderr


def test_a_view_of_an_array_stays_one():
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    parts = [whole, whole[1:3, ::2], whole.T, whole.reshape(-1)[5:]]
    back = parts
    for _ in range(3):
        back = loads(dumps(back, {}), {})
    for part, old in zip(back, parts, strict=True):
        np.testing.assert_array_equal(part, old)
    back[0][2, 4] = -1.0
    assert back[1][1, 2] == back[2][4, 2] == back[3][11] == -1.0


def test_what_is_outside_is_not_in_the_file():
    saves = Every(50)
    one_run("async_ps", saves)
    with pytest.raises(pickle.UnpicklingError, match="persistent"):
        pickle.loads(saves.kept[0][0])
