"""What JupyterLab shows for which output: the ground that the html and text twins stand on.

"Live" is a cell that has just run. "Reopened" is a shared notebook as its reader gets it: saved outputs, not
trusted, not run.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from support.browser import NotebookPage, notebook_page
from support.engines import chromium
from support.notebooks import execute, write_notebook

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

PRELUDE = """
import anywidget
from IPython.display import display

class Hello(anywidget.AnyWidget):
    _esm = "export default { render({ el }) { el.innerHTML = '<b class=live-widget>widget</b>' } }"

def show(**bundle):
    keys = {"html": "text/html", "text": "text/plain", "svg": "image/svg+xml", "markdown": "text/markdown",
            "plotly": "application/vnd.plotly.v1+json", "widget": "application/vnd.jupyter.widget-view+json"}
    display({keys[name]: value for name, value in bundle.items()}, raw=True)

def view():
    return Hello()._repr_mimebundle_()[0]["application/vnd.jupyter.widget-view+json"]

points = {"data": [{"type": "scatter", "x": [1, 2], "y": [1, 2], "mode": "markers"}], "layout": {}}
picture = "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><circle r='4' cx='4' cy='4'/></svg>"
"""
STATIC = (
    "<div class='kept' style='color: rgb(1, 2, 3)' title='hover'><table><tr><td>t</td></tr></table>"
    "<details><summary>s</summary>d</details><pre>p</pre><progress value='0.5'></progress>"
    "<meter value='0.5'></meter><img src='data:image/svg+xml;base64,PHN2ZyB4bWxucz0naHR0cDovL3d3dy53My5vcmcv"
    "MjAwMC9zdmcnIHdpZHRoPSc5JyBoZWlnaHQ9JzknLz4='></div>"
)
ACTIVE = (
    "<div class='active'><style>.active { color: rgb(9, 9, 9) }</style><svg width='9' height='9'></svg>"
    "<script>document.body.dataset.scriptRan = 'yes'</script>after</div>"
)
CELLS = [
    PRELUDE,
    "show(plotly=points, html='<i>html twin</i>', text='text twin')",
    "show(widget=view(), html='<i>html twin</i>', text='text twin')",
    "show(widget=view(), text='text twin')",
    f"show(html={STATIC!r}, text='text twin')",
    f"show(html={ACTIVE!r}, text='text twin')",
    "show(svg=picture, text='text twin')",
    "show(svg=picture, html='<i>html twin</i>', text='text twin')",
    "show(markdown='*markdown*', html='<i>html twin</i>', text='text twin')",
]
FIGURE, WIDGET, BARE_WIDGET, STATIC_HTML, ACTIVE_HTML, SVG, SVG_AND_HTML, MARKDOWN_AND_HTML = range(1, 9)

OUTPUTS_JS = """() => [...document.querySelectorAll(".jp-Notebook .jp-CodeCell")].map((cell) =>
  [...cell.querySelectorAll(".jp-OutputArea-output")].map((output) => output.innerHTML).join(""))"""
KEPT = ["table td", "details summary", "pre", "progress", "meter", "img[src^='data:image/svg+xml;base64,']"]


def outputs(page: NotebookPage) -> list[str]:
    """The html of each cell's output, once the slowest of them, the figure, is drawn."""
    page.expect(".scatterlayer .points path", ".kept img", ".active")
    page.settle()
    shown: list[str] = page.page.evaluate(OUTPUTS_JS)
    return shown


def assert_same_in_both(page: NotebookPage, shown: list[str]) -> None:
    assert "scatterlayer" in shown[FIGURE]
    assert "html twin" not in shown[FIGURE]
    for part in KEPT:
        assert page.page.locator(f".kept {part}").count() == 1, part
    assert page.page.locator(".kept[title=hover]").count() == 1
    colour = page.page.locator(".kept").evaluate("(element) => getComputedStyle(element).color")
    assert colour == "rgb(1, 2, 3)"


def test_live_outputs(tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "live.ipynb", *CELLS)
    with notebook_page(notebook, chromium=chromium(), timeout_s=200) as page:
        page.run_all()
        page.expect(".live-widget")
        shown = outputs(page)
        assert_same_in_both(page, shown)
        for cell in (WIDGET, BARE_WIDGET):
            assert "live-widget" in shown[cell]
            assert "twin" not in shown[cell]
        assert page.page.evaluate("() => document.body.dataset.scriptRan") == "yes"
        assert page.problems == []


def test_reopened_outputs_of_an_untrusted_notebook(tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "reopened.ipynb", *CELLS)
    nbformat.write(execute(notebook), notebook)
    with notebook_page(notebook, chromium=chromium(), timeout_s=200) as page:
        shown = outputs(page)
        assert_same_in_both(page, shown)
        for cell in (WIDGET, SVG_AND_HTML, MARKDOWN_AND_HTML):
            assert "<i>html twin</i>" in shown[cell]
        for cell in (BARE_WIDGET, SVG):
            assert "text twin" in shown[cell]
            assert "<svg" not in shown[cell]
        assert "after" in shown[ACTIVE_HTML]
        for removed in ("<style", "<svg", "<script"):
            assert removed not in shown[ACTIVE_HTML]
        assert page.page.evaluate("() => document.body.dataset.scriptRan") is None
