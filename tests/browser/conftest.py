"""A real browser, without a screen, and MLflow's own server."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from experiments.paths import ROOT

# What MLflow's pages remember once a visitor has closed their panels and notices.
SEEN = (
    "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1",
    "mlflow.detectIssues.guidanceShown_v1",
    "mlflow.telemetry.info.alert.dismissed_v1",
)
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
Open = Callable[[int, int], "object"]


@pytest.fixture
def open_page() -> Iterator[Open]:
    """Opens a page of a width and height."""
    sync_api = pytest.importorskip("playwright.sync_api")
    browser_path = shutil.which("chromium")
    if browser_path is None:
        pytest.skip("no chromium on PATH")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=list(FLAGS))

        def open_page(width: int, height: int):
            page = browser.new_page(viewport={"width": width, "height": height})
            page.set_default_timeout(60_000)
            page.add_init_script("".join(f"localStorage.setItem('{k}', 'true');" for k in SEEN))
            return page

        yield open_page
        browser.close()


@pytest.fixture
def serve() -> Callable[[Path], object]:
    """Serves the pages of a store in a folder, as `make mlflow-ui` does; gives the address."""
    return _serving


@contextmanager
def _serving(folder: Path) -> Iterator[str]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    store = f"tracking.uri=sqlite:///{folder}/mlflow.db"
    command = [sys.executable, "-m", "experiments.mlflow_ui", "--port", str(port), store]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", server)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            server.wait(15)
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)


def _wait_for(address: str, server: subprocess.Popen) -> None:
    deadline = time.monotonic() + 90
    while True:
        assert server.poll() is None
        assert time.monotonic() < deadline
        with suppress(OSError):
            urllib.request.urlopen(address, timeout=2)
            return
        time.sleep(0.2)
