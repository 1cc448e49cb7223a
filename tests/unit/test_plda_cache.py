"""Prepared folders appear whole, once, whoever prepares them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from workloads.base import WorkloadError
from workloads.cache import open_array, publish


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
