"""Every figure there is: where its numbers come from, and what it is called."""

from __future__ import annotations

from typing import Any

from analysis.figures import (
    claim_halving,
    failover,
    fig1,
    fig2,
    fig3,
    fig4,
    fig5,
    fig6,
    fig7,
    fig8,
    fig9,
    fig10,
    performance_profile,
    planner_gap,
    planner_speed,
    replication,
    scale,
    table1,
    transport,
)

# Each module has draw, summarize, findings and CAPTION: of the planner's answers, of recorded runs,
# of what was measured apart.
FROM_PLANNER: dict[str, Any] = {
    "fig1": fig1,
    "fig2": fig2,
    "fig3": fig3,
    "fig4": fig4,
    "fig5": fig5,
    "fig6": fig6,
}
FROM_RUNS: dict[str, Any] = {
    "fig7": fig7,
    "fig8": fig8,
    "table1": table1,
    "table1_plda": table1,
    "performance_profile": performance_profile,
    "fig10": fig10,
    "scale": scale,
    "replication": replication,
    "failover": failover,
    "claim_halving": claim_halving,
}
FROM_MEASUREMENTS: dict[str, Any] = {
    "fig9": fig9,
    "planner_gap": planner_gap,
    "planner_speed": planner_speed,
    "transport": transport,
}
FIGURES: dict[str, Any] = {**FROM_PLANNER, **FROM_MEASUREMENTS, **FROM_RUNS}

TITLES = {
    "fig7": "Convergence against time",
    "table1": "Speedup under network and compute stragglers",
    "table1_plda": "Speedup under stragglers, for LDA",
    "performance_profile": "All settings together",
    "fig8": "Update messages by bandwidth of the links they cross",
    "fig9": "Bytes that summing saves",
    "fig10": "Iterations to target against the bound on delays",
    "claim_halving": "Halving the bandwidth of 10 % of the workers",
    "fig1": "Fair sharing, reordering, time-sharing",
    "fig2": "Gain from aggregating",
    "fig3": "Schedule at server and replica",
    "fig4": "Residual bandwidth and a reservation",
    "fig5": "The case for dropping before sending",
    "fig6": "Groups of an ordered batch",
    "planner_gap": "The planner beside the exact optimum",
    "planner_speed": "Planning time",
    "transport": "Transport and all-reduce at link speed",
    "scale": "Clusters of 10 to 1,000 workers",
    "replication": "What a replica costs, and how closely it follows",
    "failover": "A host is killed in mid-run",
}
"""In the order of the report: what the paper claims first."""
