"""The page of the laptop profile is what its kept numbers give."""

from __future__ import annotations

import json
from pathlib import Path

from analysis.page import DOCS, keep, page, with_table1


def test_the_page_tells_the_kept_numbers() -> None:
    summary = json.loads((DOCS / "measurements" / "laptop.json").read_text())
    assert (DOCS / "laptop.md").read_text() == page(summary)
    for name in summary["figures"]:
        assert (DOCS / "figures" / f"{name}.png").exists()


def test_so_does_table1_in_the_results() -> None:
    summary = json.loads((DOCS / "measurements" / "laptop.json").read_text())
    text = (DOCS / "results.md").read_text()
    assert with_table1(text, summary) == text
    assert "| CS2/NS1 (held out) | 2.96 | 1.95 [1.32, 2.57] |" in text


def test_what_belongs_to_a_machine_is_not_kept(tmp_path: Path) -> None:
    results, docs = tmp_path / "results", tmp_path / "docs"
    for folder in (results / "figures", docs / "figures", docs / "measurements"):
        folder.mkdir(parents=True)
    (results / "figures" / "fig4.png").write_bytes(b"picture")
    runs = {"fig4": {"drawn": [{"run_id": "1"}], "lost": {"failed": 2}, "why": None}}
    content = {"profile": "smoke", "tracking_uri": "sqlite:////here", "runs": runs}
    summary = {**content, "figures": {"fig4": {}}, "claims": []}
    (results / "summary.json").write_text(json.dumps(summary))
    kept = json.loads(keep(results, docs).read_text())
    assert kept["lost"] == {"fig4": {"failed": 2}}
    assert not {"runs", "tracking_uri"} & set(kept)
    assert (docs / "figures" / "fig4.png").read_bytes() == b"picture"
