"""How MLflow's pages show the runs: saved views of the run table, kept as tags of the experiment.

The run table shows no parameter or metric by itself; a saved view does. The comparison page lists
parameters by the characters of their names: those that come first begin with a digit.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from experiments.naming import variant
from experiments.schema import RunConfig

POLICIES, COMPARISONS = "policies", "comparisons"
LEADING = ("1 policy", "2 workload", "3 network", "4 compute")
HEADLINE = ("time_to_target_s", "updates_per_s", "final_metric")
"""Logged first: the comparison page draws the first metric that its runs share."""

KIND = "kind"
RUN, COMPARISON = "run", "comparison"
"""Values of the tag `kind`."""

COMPARED_BY = "compared_by"
"""The tag of a run that names the comparison's run which it is part of, the latest one."""

_MADE_MS = 1_700_000_000_000  # a view must tell when it was made; the same text each time
_WIDTH = 130


def leading_params(config: RunConfig) -> dict[str, str]:
    """What tells runs apart first, under names that sort first."""
    names = (config.workload.name, config.network.name, config.compute.name)
    return dict(zip(LEADING, (variant(config), *names), strict=True))


def experiment_tags(experiment_id: str) -> dict[str, str]:
    """The views, and a line above the run table that leads to them."""
    addresses = [(view, view_address(experiment_id, view)) for view in (POLICIES, COMPARISONS)]
    links = " · ".join(f"[{view}]({address})" for view, address in addresses)
    return {
        "mlflow.note.content": f"Views: {links}",
        f"mlflow.sharedViewState.{POLICIES}": _view("Policies", RUN, [*LEADING], [*HEADLINE]),
        f"mlflow.sharedViewState.{COMPARISONS}": _view("Comparisons", COMPARISON, [], []),
    }


def view_address(experiment_id: str, view: str) -> str:
    """The part of a page's address behind the server's."""
    query = f"viewStateShareKey={view}&workflowType=machine_learning"
    return f"#/experiments/{quote(experiment_id)}/runs?{query}"


def runs_address(experiment_id: str, comparison: str) -> str:
    """The run table of one comparison's runs; the part of the address behind the server's."""
    found = quote(f"tags.{COMPARED_BY} = '{comparison}'")
    return f"{view_address(experiment_id, POLICIES)}&searchFilter={found}"


def _view(name: str, kind: str, params: list[str], metrics: list[str]) -> str:
    columns = [f"params.`{key}`" for key in params] + [f"metrics.`{key}`" for key in metrics]
    state: dict[str, Any] = {
        "searchFilter": f"tags.{KIND} = '{kind}'",
        "orderByKey": "attributes.start_time",
        "orderByAsc": False,
        "selectedColumns": columns,
        "columnOrder": ["attributes.`Run Name`", *columns, "runDateAndNestInfo", "duration"],
        "columnWidths": dict.fromkeys(columns, _WIDTH),
    }
    times = {"createdAt": _MADE_MS, "updatedAt": _MADE_MS}
    return json.dumps({"name": name, **times, "state": json.dumps(state)})
