"""The quickstart notebook in a real browser."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.browser import notebook_page
from support.engines import chromium
from support.paths import ROOT

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def test_it_shows_in_a_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    notebook = tmp_path / "quickstart.ipynb"
    shutil.copyfile(ROOT / "notebooks" / "01_quickstart.ipynb", notebook)
    with notebook_page(notebook, chromium=chromium(), timeout_s=240) as page:
        page.run_all()
        assert page.problems == []
        page.expect(
            ".vfnb-taskset", ".vfnb-run", ".vfnb-summary", ".vfnb-trace", ".vfnb-sample", ".vfnb-tokens"
        )
        page.expect("text=48 of 48 finished", "th >> text=exact_match", ".scatterlayer .points path")
        page.settle()
        page.screenshot(tmp_path / "quickstart.png")
        assert page.problems == []
