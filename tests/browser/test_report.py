"""The report in a real browser, offline: it fits, shows all pictures, tells the numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient

from analysis.draw import main
from analysis.report import interval_shown, shown
from experiments.planner_answers import write_answers
from tests.figures.made_up import POLICIES, MadeUpRun, Store, target_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of made-up runs, one of them invalid, and of figures of the planner."""
    folder = tmp_path_factory.mktemp("report")
    MlflowClient(f"sqlite:///{folder}/mlflow.db").search_experiments()
    store = Store(folder)
    runs = [
        MadeUpRun(policy=policy, seed=seed, target=target_of("resnet_mnist5k"))
        for policy in POLICIES
        for seed in range(3)
    ]
    runs[0].status = "invalid"
    for run in runs:
        store.record(run)
    plan = store.plan(folder / "plan.json", runs, ("fig7", "fig8"))
    write_answers(["fig1", "fig4", "fig6"], folder / "plans")
    assert main(["--plan", str(plan), "--figures", "fig1,fig4,fig6,fig7,fig8"]) == 0
    return folder


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_it_fits_and_tells_what_the_summary_says(
    folder: Path, open_page, width: int, height: int
) -> None:
    page = open_page(width, height)
    faults, asked = [], []
    page.on("console", lambda message: faults.append(message.text))
    page.on("request", lambda request: asked.append(request.url))
    page.context.set_offline(True)
    page.goto(f"file://{folder}/report.html")
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width
    pictures = page.locator("img").evaluate_all("all => all.map(i => [i.naturalWidth, i.alt])")
    assert len(pictures) == 5
    assert all(natural > 0 and alt for natural, alt in pictures)
    assert all(url.startswith(("file:", "data:")) for url in asked)
    assert faults == []
    claims = json.loads((folder / "summary.json").read_text())["claims"]
    for claim in claims:
        row = page.locator(f"#{claim['figure']} tr", has_text=claim["claim"])
        cells = row.locator("td").all_inner_texts()
        assert cells[1:3] == [shown(claim["paper"]), shown(claim["ours"])]
        assert cells[3] == interval_shown(claim["ci95"])
        assert cells[6].startswith(claim["verdict"])
    assert page.get_by_text("Left out, and counted: 1 invalid.").count() == 2
    page.locator("#fig7 details summary").click()
    links = page.locator("#fig7 details li a").evaluate_all("all => all.map(a => a.href)")
    assert len(links) == 8
    assert all("/#/experiments/" in link and "/runs/" in link for link in links)
