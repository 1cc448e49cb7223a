"""Options of every policy at once; each reads its own."""

OPTIONS = {
    "delay_bound": None,
    "ordering": "shortest",
    "aggregation": "paper",
    "aggregators": None,
    "aggregator_choice": "random",
    "bandwidth": "measured",
    "probes": False,
    "staleness": 3,
    "backups": 1,
    "momentum": 0.0,
    "step_rule": "constant",
    "adadelay_c": 0.02,
}
