"""The MPI library's own all-reduce, for reference: dense vectors, real ranks only."""

from __future__ import annotations

from typing import Literal

from mlfabric.policies.base import MomentumOptions

PLACE: Literal["library"] = "library"
Options = MomentumOptions
