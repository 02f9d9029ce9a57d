"""The notebook of two agent programs, run for real and looked at in a browser."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.browser import notebook_page
from support.engines import chromium
from support.errands import ready
from support.paths import ROOT
from vfnb_harnesses.claude_code import ClaudeCodeHarness
from vfnb_harnesses.codex import CodexHarness

pytestmark = [pytest.mark.real, pytest.mark.timeout(420)]


def test_two_programs_are_shown_beside_each_other(tmp_path: Path) -> None:
    for harness in (CodexHarness(), ClaudeCodeHarness()):
        ready(harness)
    notebook = tmp_path / "harnesses.ipynb"
    shutil.copyfile(ROOT / "notebooks" / "05_harnesses.ipynb", notebook)
    with notebook_page(notebook, chromium=chromium(), timeout_s=300) as page:
        page.run_all()
        assert page.problems == []
        page.expect("text=2 harnesses on LedgerTaskset", "td >> text=1.0 ± 0.0", "text=compaction (summary)")
        page.expect(".scatterlayer .points path", "text=messages before the first reply")
        page.settle()
        assert page.problems == []
