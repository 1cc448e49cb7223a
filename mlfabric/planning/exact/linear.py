"""A mixed-integer linear program, put together row by row and solved by HiGHS."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlfabric.errors import SettingError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Term = tuple[float, int]
"""A coefficient and the number of its variable."""

_OPTIMAL, _INFEASIBLE = 0, 2
"""Of the statuses of `milp`."""


@dataclass(frozen=True)
class Solution:
    """What HiGHS found: no point has a larger sum than `bound`.

    `values` is None where no point was found; where there is none, that is `proven`.
    """

    values: Floats | None
    bound: float
    proven: bool


class LinearProgram:
    """Variables, numbered from 0, and rows: low ≤ Σ coefficient · variable ≤ high."""

    def __init__(self) -> None:
        self._upper: list[float] = []
        self._whole: list[int] = []
        self._gain: Counter[int] = Counter()
        self._low: list[float] = []
        self._high: list[float] = []
        self._entries: list[tuple[int, int, float]] = []

    def binary(self, count: int) -> Ints:
        """Numbers of new variables that are 0 or 1."""
        return self._block(count, 1.0, 1)

    def amount(self, count: int) -> Ints:
        """Numbers of new variables that are any amount, not below 0."""
        return self._block(count, np.inf, 0)

    def _block(self, count: int, upper: float, whole: int) -> Ints:
        first = len(self._upper)
        self._upper += [upper] * count
        self._whole += [whole] * count
        return np.arange(first, first + count)

    def forbid(self, variables: Ints) -> None:
        """These are 0."""
        for variable in variables:
            self._upper[variable] = 0.0

    def row(self, low: float, terms: Iterable[Term], high: float = np.inf) -> None:
        """The sum of the terms lies between `low` and `high`."""
        self._entries += [(len(self._low), variable, factor) for factor, variable in terms]
        self._low.append(low)
        self._high.append(high)

    def not_above(self, lesser: Ints, greater: Ints) -> None:
        """Each variable is no more than its counterpart."""
        for low, high in zip(lesser, greater, strict=True):
            self.row(0.0, [(1.0, high), (-1.0, low)])

    def maximize(self, variables: Ints) -> None:
        """The sum of these is as large as it can be; one that is named twice counts twice."""
        self._gain = Counter(variables.tolist())

    def solve(self, time_limit_s: float) -> Solution:
        """Raises SettingError where SciPy is missing."""
        try:
            from scipy.optimize import Bounds, LinearConstraint, milp
            from scipy.sparse import csc_array
        except ImportError as error:
            raise SettingError("exact: SciPy is missing; install mlfabric[exact]") from error
        rows, columns, factors = zip(*self._entries, strict=True)
        shape = (len(self._low), len(self._upper))
        matrix = csc_array((factors, (rows, columns)), shape=shape)
        result = milp(
            [-float(self._gain[variable]) for variable in range(len(self._upper))],
            integrality=self._whole,
            bounds=Bounds(0.0, np.array(self._upper)),
            constraints=LinearConstraint(matrix, self._low, self._high),
            options={"time_limit": time_limit_s, "mip_rel_gap": 0.0},
        )
        if result.status == _INFEASIBLE:
            return Solution(None, 0.0, True)
        dual = result.mip_dual_bound
        bound = math.inf if dual is None else -dual
        return Solution(result.x, bound, result.status == _OPTIMAL)


def weighted(factor: float, variables: Iterable[int]) -> list[Term]:
    """Every variable with the same coefficient."""
    return [(factor, variable) for variable in variables]
