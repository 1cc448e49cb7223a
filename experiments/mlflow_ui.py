"""`make mlflow-ui`: MLflow's pages on the suite's store, on the loopback address only."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from experiments.errors import RunFailed
from experiments.overrides import validate
from experiments.sections import TrackingConfig
from experiments.tracking import create_store
from experiments.tracking_views import COMPARISONS, POLICIES, view_address
from mlfabric.errors import SettingError

HOST = "127.0.0.1"
# Neither telemetry nor the workers of jobs that nobody starts here.
_QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; becomes the server, or returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m experiments.mlflow_ui", description=__doc__)
    parser.add_argument("--port", type=int, default=5000)
    parser.add_argument(
        "overrides", nargs="*", help="such as tracking.uri=sqlite:////abs/mlflow.db"
    )
    chosen = parser.parse_args(arguments)
    try:
        (config,) = validate(chosen.overrides, multirun=False)
        experiment_id = create_store(config.tracking)
    except (SettingError, RunFailed) as error:
        print(error, file=sys.stderr)
        return 2
    for view in (POLICIES, COMPARISONS):
        print(
            f"{view}: http://{HOST}:{chosen.port}/{view_address(experiment_id, view)}", flush=True
        )
    os.execve(
        sys.executable, server_command(config.tracking, chosen.port), {**os.environ, **_QUIET}
    )


def server_command(tracking: TrackingConfig, port: int) -> list[str]:
    """What serves a store's pages."""
    store = ["--backend-store-uri", tracking.store]
    place = ["--host", HOST, "--port", str(port), "--workers", "1"]
    return [sys.executable, "-m", "mlflow", "server", *store, *place]


if __name__ == "__main__":
    sys.exit(main())
