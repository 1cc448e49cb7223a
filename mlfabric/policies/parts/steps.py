"""How much of an update is applied, by its delay: w <- w + s * u."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from mlfabric.policies.base import AtLeast

StepRule = Callable[[int, int], float]
"""The scale of an update that is applied at a version, with a delay."""


@dataclass(frozen=True)
class StepOptions:
    """`step_rule`: constant (1), inverse_delay (1 / max(1, delay), staleness-aware SGD) or adadelay
    (1 / (1 + adadelay_c * sqrt(version + delay)), after Sra et al., AISTATS 2016)."""

    step_rule: Literal["constant", "inverse_delay", "adadelay"]
    adadelay_c: Annotated[float, AtLeast(0.0)]


def step_rule(options: Mapping[str, Any]) -> StepRule | None:
    """The rule that `StepOptions` ask for; None where every update is applied as it is."""
    match options.get("step_rule", "constant"):
        case "inverse_delay":
            return lambda version, delay: 1.0 / max(1, delay)
        case "adadelay":
            c = options["adadelay_c"]
            return lambda version, delay: 1.0 / (1.0 + c * math.sqrt(version + delay))
        case _:
            return None
