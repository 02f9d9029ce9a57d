"""The authoring notebook in a real browser."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.browser import notebook_page
from support.engines import chromium
from support.paths import ROOT

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def test_each_step_shows_its_effect_in_a_browser(tmp_path: Path) -> None:
    notebook = tmp_path / "authoring.ipynb"
    shutil.copyfile(ROOT / "notebooks" / "02_authoring.ipynb", notebook)
    with notebook_page(notebook, chromium=chromium(), timeout_s=240) as page:
        page.run_all()
        assert page.problems == []
        page.expect(
            ".vfnb-taskset", ".vfnb-run", ".vfnb-summary", ".vfnb-trace", ".scatterlayer .points path"
        )
        page.expect("text=12 of 12 finished", "text=model calls for the new scores: 0", "th >> text=verdict")
        page.expect("text=calls of the model: 0 and of the judge: 12", "text=4 of 12 rollouts failed")
        page.settle()
        assert page.problems == []
