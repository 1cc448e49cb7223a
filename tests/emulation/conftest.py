"""An emulated cluster to run small programs in; skipped where there can be none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mlfabric.emulation.availability import unavailable

PROJECT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT_S = 90


@dataclass
class Bubble:
    """Starts bubbles of `count` equal hosts whose run folder is `run_dir`."""

    run_dir: Path
    count: int = 3
    bandwidth_bytes_per_s: float = 3.125e6
    rate_events: Sequence[tuple[float, str, float]] = ()
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def command_line(self, *command: str, **changes: object) -> list[str]:
        """Write the spec; returns what starts the bubble."""
        names = ["scheduler", "server", *(f"w{i}" for i in range(1, self.count - 1))]
        spec = {
            "hosts": [
                {"name": name, "bandwidth_bytes_per_s": self.bandwidth_bytes_per_s}
                for name in names
            ],
            "congestion_control": "cubic",
            "rate_events": [list(event) for event in self.rate_events],
            "run_dir": str(self.run_dir),
            "command": list(command),
            "env": {},
            "cwd": str(PROJECT),
            **changes,
        }
        path = self.run_dir / "spec.json"
        path.write_text(json.dumps(spec))
        return [sys.executable, "-m", "mlfabric.emulation.bubble", str(path)]

    def run(self, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command in a fresh bubble to its end."""
        return subprocess.run(
            self.command_line(*command),
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
            **options,
        )

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start a command in a fresh bubble, in the background."""
        process = subprocess.Popen(
            self.command_line(*command), cwd=PROJECT, stdout=subprocess.PIPE, text=True
        )
        self.started.append(process)
        return process

    def close(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()


@pytest.fixture
def bubble(tmp_path: Path, needs_namespaces: None) -> Iterator[Bubble]:
    """Three hosts at 25 Mbit/s."""
    bubble = Bubble(tmp_path)
    yield bubble
    bubble.close()


@pytest.fixture(scope="session")
def needs_namespaces() -> None:
    reason = unavailable()
    if reason:
        pytest.skip(f"no emulated cluster here: {reason}")
