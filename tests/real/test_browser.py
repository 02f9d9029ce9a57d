"""The browser runner itself: what it shows, and what it reports."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.browser import notebook_page
from support.engines import chromium
from support.notebooks import write_notebook

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

FIGURE = """
import plotly.graph_objects as go
go.Figure(go.Scatter(x=[1, 2, 3], y=[3, 1, 2], mode="markers"))
"""
TWIN = """
class Twin:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": "twin", "text/html": "<table class='vfnb-twin'><tr><td>cell</td></tr></table>"}
Twin()
"""
BUTTON = """
import ipywidgets
button, label = ipywidgets.Button(description="press"), ipywidgets.Label("waiting")
button.add_class("vfnb-button")
button.on_click(lambda _: setattr(label, "value", "pressed"))
ipywidgets.VBox([button, label])
"""
REMOTE = """
from IPython.display import HTML
HTML("<img src='https://example.invalid/picture.png'>")
"""


def test_text_figure_twin_and_click_reach_the_page(tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "small.ipynb", "print('hello from a cell')", FIGURE, TWIN, BUTTON)
    before = notebook.read_bytes()
    with notebook_page(notebook, chromium=chromium(), timeout_s=200) as page:
        page.run_all()
        page.expect("text=hello from a cell", ".vfnb-twin td", ".vfnb-button")
        page.expect(".scatterlayer .points path")
        assert page.page.locator(".scatterlayer .points path").count() == 3
        page.click(".vfnb-button")
        page.expect("text=pressed")
        page.screenshot(tmp_path / "small.png")
        assert page.problems == []
    assert (tmp_path / "small.png").stat().st_size > 10_000
    assert notebook.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.ipynb", "small.png"]


def test_what_is_wrong_is_reported(tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "broken.ipynb", REMOTE, "raise ValueError('broken on purpose')", "1")
    with notebook_page(notebook, chromium=chromium(), timeout_s=200) as page:
        page.run_all()
        page.expect("text=ValueError", "img[src*='example.invalid']")
        page.settle()
        problems = "\n".join(page.problems)
    assert "cell 1 raised ValueError: broken on purpose" in problems
    assert "cell 2 was not executed" in problems
    assert "request outside loopback: https://example.invalid/picture.png" in problems
