"""A worker's view of the model: what it pulled, and for counts its own updates besides."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from numpy.typing import NDArray

from mlfabric.momentum import Momentum
from mlfabric.payload import Payload, total


class ModelView:
    """The vector that a worker computes on; `values` has the model's shape and dtype.

    With `conserved` (counts) the view also holds every own update that the pulled version does
    not, and a dropped update is added to the next one: nothing is ever lost. Sums are applied with
    `momentum`.
    """

    def __init__(self, values: NDArray[Any], *, conserved: bool, momentum: float = 0.0) -> None:
        self.values = values
        self.version = 0
        self._conserved = conserved
        self._pending: dict[int, Payload] = {}
        self._carried: int | None = None
        self._momentum = Momentum(momentum)

    def outgoing(self, iteration: int, update: Payload) -> Payload:
        """What to push for a newly computed update, a dropped one before it included."""
        if not self._conserved:
            return update
        update.add_to(self.values)
        if self._carried is not None:
            update = total([self._pending.pop(self._carried), update])
            self._carried = None
        self._pending[iteration] = update
        return update

    def dropped(self, iteration: int) -> None:
        """The update of this iteration will not be applied."""
        if self._conserved:
            self._carried = iteration

    def pulled(self, model: Payload, version: int, included: int) -> None:
        """Take a newer model that holds this worker's updates up to iteration `included`."""
        for update in self._pending.values():
            update.subtract_from(self.values)
        model.overwrite(self.values)
        self.version = version
        self._pending = {i: u for i, u in self._pending.items() if i > included}
        if self._carried not in self._pending:  # it was applied before anyone could say so
            self._carried = None
        for update in self._pending.values():
            update.add_to(self.values)

    def summed(self, update: Payload, updates: int) -> None:
        """Add the sum of all workers' updates, this worker's own among them (all-reduce)."""
        for own in self._pending.values():
            own.subtract_from(self.values)
        self._pending.clear()
        self._momentum.step(update).add_to(self.values)
        self.version += updates

    def state(self) -> Any:
        """A copy of all that it holds."""
        memory = self._momentum.memory(self.values)
        return deepcopy((self.values, self.version, self._pending, self._carried, memory))

    def restore(self, state: Any) -> None:
        """Hold what another view's `state` was."""
        self.values[:], self.version, self._pending, self._carried, memory = state
        for velocity in memory:
            self._momentum.remember(velocity)
