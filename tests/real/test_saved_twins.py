"""Our own twins in a saved notebook that nobody trusted: every style stays, every picture is drawn."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import nbformat
import pytest
from support.browser import notebook_page
from support.engines import chromium
from support.notebooks import write_notebook
from support.talks import chain, failed, family
from support.views import HOSTILE, view

from vfnb.lab.display import branch_bundle, run_bundle, summary_bundle, trace_bundle
from vfnb.lab.sample import sample

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

STYLES_JS = """() => [...document.querySelectorAll("[class^=vfnb-]")]
  .filter((element) => !element.parentElement.closest("[class^=vfnb-]"))
  .map((root) => [root, ...root.querySelectorAll("[style]")].map((element) => element.getAttribute("style")))"""


def compact(style: str) -> str:
    return re.sub(r"\s", "", unescape(style))


def test_reopened_twins_keep_their_styles(tmp_path: Path) -> None:
    some = view(12, 16, running=4, eta_s=3.0, notes=("a note",), name=HOSTILE)
    assert some.summary is not None
    bundles = [
        run_bundle(some),
        summary_bundle(some.summary),
        trace_bundle(family(HOSTILE)),
        trace_bundle(failed()),
        trace_bundle(chain(80)),
        branch_bundle(family().branches[-1]),
        sample([family(), failed()], 2)._repr_mimebundle_(),
    ]
    notebook = write_notebook(tmp_path / "saved.ipynb", *["pass"] * len(bundles))
    saved = nbformat.read(notebook, as_version=4)
    for cell, bundle in zip(saved.cells, bundles, strict=True):
        cell.execution_count = 1
        cell.outputs = [nbformat.v4.new_output("execute_result", data=bundle, execution_count=1)]
    nbformat.write(saved, notebook)
    with notebook_page(notebook, chromium=chromium(), timeout_s=200) as page:
        page.expect(".vfnb-run progress", ".vfnb-trace img", ".vfnb-sample details")
        page.settle()
        kept = page.page.evaluate(STYLES_JS)
        drawn = page.page.evaluate(
            "() => [...document.querySelectorAll('.vfnb-trace img')].map(i => i.naturalWidth)"
        )
        assert page.problems == []
    for bundle, styles in zip(bundles, kept, strict=True):
        given = re.findall(r'style="([^"]*)"', bundle["text/html"])
        assert [compact(style) for style in styles] == [compact(style) for style in given]
    assert min(drawn) > 100
