"""What every workload offers: a flat model, additive updates, scores off the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from annotated_types import Ge, Gt
from numpy.typing import NDArray

Vector = NDArray[Any]
Update = tuple[NDArray[np.int32] | None, Vector]


Positive = Annotated[float, Gt(0)]
Count = Annotated[int, Ge(1)]


@dataclass(frozen=True)
class Location:
    """In `Annotated`: a path; whoever reads settings makes it absolute."""


class WorkloadError(Exception):
    """A workload cannot be prepared or run; its text is one line fit for a user."""


class Trainer(Protocol):
    """One worker's half of a workload; used by a single thread."""

    def warm_up(self) -> None:
        """Compile, trace and do one discarded step on made-up data; touches no data set."""

    def load(self) -> None:
        """First touch of the data, inside the clock; takes milliseconds (memory maps).

        Raises WorkloadError when the data has not been prepared.
        """

    def compute(self, view: Vector) -> Update:
        """Compute one update from the worker's view of the model, which is only read.

        `view` has the shape and dtype of `Workload.initial_model()`. A dense update is
        (None, values float32[size]); a sparse one is (indices int32[nnz] strictly increasing,
        values[nnz] of the model's dtype without zeros). The update holds its step size and
        worker-local momentum, so that the server does w += update. The arrays belong to the caller:
        no later call writes to them.
        """

    def state(self) -> Any:
        """Return all that the updates to come depend on: plain values and arrays, copies, to be
        pickled. Called after `load` and between computations.
        """

    def restore(self, state: Any) -> None:
        """Go on, after `load`, where the same worker's trainer was when `state` was taken."""


class Evaluator(Protocol):
    """Scores snapshots of the model, off the clock."""

    def evaluate(self, model: Vector) -> dict[str, float]:
        """Return one model's metrics, `Workload.metric_name` among them; repeatable."""

    def report(self, model: Vector) -> dict[str, str]:
        """Return what a person would read of a trained model: texts by file name, often none."""


class Workload(Protocol):
    """A model, its data and its metric, named as in the configuration.

    An implementation is a frozen dataclass whose fields are its settings: plain types, `Literal`,
    or `Annotated` with bounds of annotated_types or with `Location`. `name`, `seed` and `cache_dir`
    are among them, and `framework`, the training framework or "none".
    """

    @property
    def name(self) -> str:
        """The configuration name, such as "plda_sotu"."""

    @property
    def metric_name(self) -> str:
        """The metric in which a target is stated."""

    @property
    def metric_goal(self) -> Literal["min", "max"]:
        """Whether a smaller or a larger metric is better."""

    @property
    def conserved(self) -> bool:
        """Whether updates are count deltas.

        If so, a dropped update is added to its worker's next one, and a worker's view is the pulled
        model plus all its own deltas that the pulled version does not hold.
        """

    @property
    def data(self) -> str:
        """What is trained on, for the record; says so where it is synthetic."""

    def problem(self) -> str | None:
        """Say in one line why these settings cannot be carried out, naming key, value and what is
        allowed; None where they can. Looks for folders, and reads no data.
        """

    def prepare(self) -> None:
        """Turn raw data into cache files and compile; done once, atomic, safe when processes race.

        Raises WorkloadError when a package is missing or the cache folder cannot be written.
        """

    def initial_model(self) -> Vector:
        """Return the flat starting model, from the seed alone: float32 (gradients) or int32."""

    def trainer(self, worker: int, workers: int) -> Trainer:
        """Return the trainer of worker `worker` in 0..workers-1."""

    def evaluator(self) -> Evaluator:
        """Return an evaluator; building it may load data."""
