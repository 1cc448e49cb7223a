"""Files, charts and arguments of the planner's command: what it writes, what it refuses."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from pathlib import Path

import pytest

from mlfabric.plan import answer
from mlfabric.plan.__main__ import main
from tests.unit.test_plan_command import fig6
from tests.unit.test_plan_refusals import PROBLEM, refused

DATA = json.dumps(PROBLEM).encode()


def test_the_command_writes_the_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """From a file, from standard input, and with a chart beside it."""
    problem, chart = tmp_path / "fig6.json", tmp_path / "fig6.png"
    problem.write_text(json.dumps(fig6()), encoding="utf-8")
    assert main([str(problem), "--plot", str(chart)]) == 0
    from_file = capsys.readouterr().out
    assert main([], io.BytesIO(problem.read_bytes())) == 0
    assert capsys.readouterr().out == from_file
    assert json.loads(from_file) == answer(fig6())
    assert chart.read_bytes().startswith(b"\x89PNG")


def test_a_file_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = str(tmp_path / "nowhere.json")
    assert refused(capsys, [nowhere]) == f"{nowhere}: No such file or directory"
    assert refused(capsys, [str(tmp_path)]) == f"{tmp_path}: Is a directory"
    assert refused(capsys, [""]) == 'FILE: "": must be the path of a file, or -'
    assert refused(capsys, ["no\n\x1b[31mfile"]) == r"no\n\x1b[31mfile: No such file or directory"


def test_a_chart_that_cannot_be_written_is_refused_before_planning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlfabric.plan.solving.solve", lambda *_, **__: pytest.fail("planned"))
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "loop.png").symlink_to("loop.png")
    (tmp_path / "lost.png").symlink_to("nowhere/out.png")
    os.mkfifo(tmp_path / "pipe.png")
    before = sorted(tmp_path.iterdir())
    long = "x" * 300 + ".png"
    for name, reason in [
        ("out.xyz", "must end in .png, .pdf, .svg"),
        ("out", "must end in .png, .pdf, .svg"),
        ("nowhere/out.png", "No such file or directory"),
        ("folder.png", "Is a directory"),
        ("loop.png", "Too many levels of symbolic links"),
        ("lost.png", "No such file or directory"),
        ("pipe.png", "No such device or address"),
        (long, "File name too long"),
    ]:
        path = tmp_path / name
        assert refused(capsys, ["--plot", str(path)], DATA) == f"--plot: {path}: {reason}"
    assert sorted(tmp_path.iterdir()) == before


def test_the_input_is_no_place_for_the_chart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, link = tmp_path / "problem.png", tmp_path / "link.png"
    problem.write_bytes(DATA)
    link.symlink_to(problem)
    for path in (problem, link, tmp_path / ".." / tmp_path.name / "problem.png"):
        line = refused(capsys, [str(problem), "--plot", str(path)])
        assert line == f"--plot: {path}: must be another file than FILE"
    assert problem.read_bytes() == DATA


def test_a_chart_goes_where_a_link_leads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is there yet; a refused input leaves it that way."""
    target, link = tmp_path / "folder" / "target.png", tmp_path / "link.png"
    target.parent.mkdir()
    link.symlink_to(target)
    refused(capsys, ["--plot", str(link)], b"{}")
    assert link.is_symlink()
    assert list(target.parent.iterdir()) == []
    assert main(["--plot", str(link)], io.BytesIO(DATA)) == 0
    assert link.is_symlink()
    assert list(target.parent.iterdir()) == [target]
    assert target.read_bytes().startswith(b"\x89PNG")


def test_a_chart_that_fails_in_the_end_leaves_the_one_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chart = tmp_path / "out.png"
    chart.write_bytes(b"before")

    def half(path: Path, content: bytes) -> None:
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", half)
    line = refused(capsys, ["--plot", str(chart)], DATA)
    assert line == f"--plot: {chart}: No space left on device"
    assert list(tmp_path.iterdir()) == [chart]
    assert chart.read_bytes() == b"before"


def test_a_refused_input_leaves_no_chart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(capsys, ["--plot", str(tmp_path / "out.png")], b"{}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--plott", "x"], "unrecognized arguments: --plott"),
        (["a", "b"], "unrecognized arguments: b"),
        (["--plot"], "argument --plot: expected one argument"),
    ],
)
def test_bad_arguments(argv: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, argv) == line


@pytest.mark.parametrize(
    ("package", "argv", "line"),
    [
        ("matplotlib", ["--plot", "x.png"], "--plot: {} is not installed; {} 'mlfabric[plot]'"),
        ("pydantic", [], "the planner: {} is not installed; {} 'mlfabric[plan]'"),
    ],
)
def test_a_missing_package_is_told(
    package: str,
    argv: list[str],
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in [*sys.modules]:
        if name.split(".")[0] == package or name.startswith("mlfabric.plan."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Hidden(package), *sys.meta_path])
    assert refused(capsys, argv, DATA) == line.format(package, "pip install")


class _Hidden:
    """Makes one package impossible to find."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, *_: object) -> None:
        if name.split(".")[0] == self._package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
