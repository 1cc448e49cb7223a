"""What the planner is asked, as typed values; wrong types and values out of range are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, MinLen
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Strict,
    ValidationError,
)

from mlfabric.errors import SettingError
from mlfabric.plan.complaints import complaint, refusal
from mlfabric.plan.rules import RULES
from mlfabric.planning.aggregation import AggregatorChoice
from mlfabric.planning.batch import Aggregation, OrderingRule

_MAX_S = 1e10
_MAX = 10**15
"""Of sizes, rates, norms and versions."""


def _within(limit: float) -> AfterValidator:
    """Refuses magnitudes at which floating-point seconds would no longer tell transfers apart."""

    def check(value: float) -> float:
        if abs(value) > limit:
            raise ValueError(f"at most {limit:g} in magnitude")
        return value

    return AfterValidator(check)


def _as_integer(value: Any) -> Any:
    """JSON has numbers only: 1e6 is an integer too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_WHOLE = BeforeValidator(_as_integer)

Name = Annotated[str, MinLen(1)]
Seconds = Annotated[float, _within(_MAX_S)]
Bytes = Annotated[int, Gt(0), _within(_MAX), _WHOLE]
Magnitude = Annotated[float, Ge(0), _within(_MAX)]
Version = Annotated[int, Ge(0), _within(_MAX), _WHOLE]
Change = Annotated[tuple[Seconds, Magnitude], Strict(False)]  # JSON has no tuples, only lists
Rates = Annotated[list[Change], MinLen(1)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class HostLinks(_Strict):
    """Free bytes/s of a host's interface, from each time on; the last rate holds for ever."""

    egress: Rates
    ingress: Rates


class AskedUpdate(_Strict):
    """An update that waits at its worker."""

    id: Name
    worker: Name
    bytes: Bytes
    version: Version
    ready: Seconds
    norm: Magnitude | None = None


class Rack(_Strict):
    """Hosts under one switch, and the free bytes/s of its uplink."""

    hosts: Annotated[list[Name], MinLen(1)]
    up: Rates
    down: Rates


class AskedReplica(_Strict):
    """A host that follows the server within a bound on the distance of their models."""

    host: Name
    divergence_bound: Magnitude
    pending_norm: Magnitude = 0.0


class Problem(_Strict):
    """One batch to be planned."""

    server: Name
    links: Annotated[dict[Name, HostLinks], MinLen(1)]
    updates: Annotated[list[AskedUpdate], MinLen(1)]
    now: Seconds = 0.0
    version: Version = 0
    delay_bound: Version | None = None
    ordering: OrderingRule = "shortest"
    sharing: Literal["time", "fair"] = "time"
    aggregation: Aggregation | None = None
    aggregators: list[Name] = []
    aggregator_choice: AggregatorChoice = "in_order"
    reuse_aggregators: bool = True
    seed: Annotated[int, Ge(0), _WHOLE] = 0
    model_bytes: Bytes | None = None
    chunk_bytes: Bytes = 65536
    racks: dict[Name, Rack] | None = None
    replica: AskedReplica | None = None

    @property
    def aggregation_mode(self) -> Aggregation:
        """What is asked for; by default the paper's where there are aggregators."""
        return self.aggregation or ("paper" if self.aggregators else "none")


def read(value: Any) -> Problem:
    """The problem in a parsed JSON value; SettingError names the first field that is wrong."""
    if not isinstance(value, dict):
        raise SettingError(refusal((), value, "an object"))
    try:
        problem = Problem.model_validate(value)
    except ValidationError as error:
        raise SettingError(complaint(Problem, error)) from None
    for rule in RULES:
        if broken := rule(problem):
            raise SettingError(broken)
    return problem
