"""Prepared folders appear whole, once, whoever prepares them."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from workloads.base import WorkloadError
from workloads.cache import mark_of, open_array, publish

ROOT = Path(__file__).parents[2]


def test_two_that_prepare_at_once_leave_one_whole_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    together = Barrier(2, timeout=10)

    def build() -> dict[str, np.ndarray]:
        together.wait()
        return {"numbers": np.arange(5)}

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: publish(folder, build), range(2)))
    assert open_array(folder, "numbers").tolist() == [0, 1, 2, 3, 4]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_published_folder_is_not_built_again(tmp_path: Path) -> None:
    publish(tmp_path / "data", lambda: {"numbers": np.arange(5)})
    publish(tmp_path / "data", lambda: {"numbers": np.arange(9)})
    assert open_array(tmp_path / "data", "numbers").size == 5


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def build() -> dict[str, np.ndarray]:
        raise KeyError("broken source")

    with pytest.raises(KeyError, match="broken source"):
        publish(tmp_path / "data", build)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(WorkloadError, match="cache_dir must be a folder that can be written") as e:
        publish(tmp_path / "file" / "data", lambda: {"numbers": np.arange(5)})
    assert "\n" not in str(e.value)


def test_mapped_arrays_are_read_only(tmp_path: Path) -> None:
    publish(tmp_path / "data", lambda: {"numbers": np.arange(5)})
    with pytest.raises(ValueError, match="read-only"):
        open_array(tmp_path / "data", "numbers")[0] = 1


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from workloads.cache import publish_folder\n"
        "def fill(staging):\n"
        "    (staging / 'half.npy').write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "publish_folder(Path(sys.argv[1]), fill)\n"
    )
    folder = tmp_path / "data"
    done = subprocess.run([sys.executable, "-c", program, str(folder)], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob(".data-*"))) == 1
    publish(folder, lambda: {"numbers": np.arange(5)})
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert sorted(path.name for path in folder.iterdir()) == ["numbers.npy"]


def test_files_are_told_apart_by_size_and_through_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    before = mark_of([link])
    assert mark_of([link]) == before
    (tmp_path / "real" / "more").touch()
    assert mark_of([link]) != before
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    mark_of([tmp_path / "dangling"])
