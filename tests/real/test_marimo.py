"""The views in a marimo app, in a real browser: drawn, clicked, and a slider that reaches Python."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect
from support.browser import blank_page
from support.engines import chromium
from support.paths import ROOT

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

APP = f"""
import marimo

app = marimo.App()


@app.cell
def _():
    import sys

    sys.path.insert(0, {str(ROOT / "tests")!r})
    import marimo as mo
    import vfnb as vf
    from support.talks import family
    from support.wordy import WordyTaskset, speaker
    return WordyTaskset, family, mo, speaker, vf


@app.cell
def _(family, mo):
    mo.ui.anywidget(family("<b>hostile</b>").view())
    return


@app.cell
def _(WordyTaskset, mo, speaker, vf):
    run = vf.evaluate(WordyTaskset(), model=speaker(), rollouts=6, dir="run").wait(quiet=True)
    lab = mo.ui.anywidget(run.reward_lab())
    lab
    return lab, run


@app.cell
def _(lab, mo):
    mo.md("weights: " + str(lab.value["weights"]))
    return


if __name__ == "__main__":
    app.run()
"""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The app behind marimo's own server; its address."""
    (folder / "app.py").write_text(APP)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = os.environ | {"MARIMO_SKIP_UPDATE_CHECK": "1", "HOME": str(folder)}
    command = [
        sys.executable,
        "-m",
        "marimo",
        "run",
        "app.py",
        "--headless",
        "--no-token",
        "--port",
        str(port),
    ]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{url}/health", timeout=2).close()
                break
            except OSError:
                assert server.poll() is None, (folder / "server.log").read_text()
                time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait(20)


def test_the_views_live_in_a_marimo_app(tmp_path: Path) -> None:
    with served(tmp_path) as url, blank_page(chromium(), 150) as opened:
        page = opened.page
        page.goto(url)
        opened.expect(".vfnb-trace-view canvas[data-drawn='13']", ".vfnb-lab-view input[type=range]")
        # A click on a mark shows its message.
        page.locator(".vfnb-trace-view canvas").click(position={"x": 62, "y": 30})
        chosen = page.locator(".vfnb-trace-view .vfnb-card[aria-current]")
        expect(chosen).to_contain_text("How many? <b>hostile</b>")
        # A slider changes the chart, and the cell that reads the weights runs again.
        chart = page.locator(".vfnb-lab-view svg.vfnb-chart")
        before = chart.get_attribute("data-after")
        expect(page.get_by_text("weights: {}")).to_be_visible()
        page.get_by_role("slider", name="weight of thorough").focus()
        for _ in range(12):
            page.keyboard.press("ArrowLeft")
        expect(page.get_by_text("weights: {'thorough': 0.38}")).to_be_visible()
        expect(chart).not_to_have_attribute("data-after", str(before))
        assert page.locator("b:text-is('hostile')").count() == 0
        opened.settle()
        assert opened.problems == []
