"""Every example notebook: from top to bottom, and as it is stored."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from support.notebooks import execute
from support.paths import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PROGRAMS = {"05_harnesses"}  # run by tests/real/test_harnesses_notebook.py, for they need agent programs
TORCH = {"04_tokens"}  # run by tests/real/test_tokens_notebook.py, for it needs PyTorch
FAST = {"01_quickstart"}  # the rest take a real kernel half a minute each
PLAIN = [path for path in NOTEBOOKS if path.stem not in PROGRAMS | TORCH]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in FAST else pytest.mark.real)
        for path in PLAIN
    ],
)
@pytest.mark.timeout(120)
def test_it_runs_and_every_result_has_twins(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    copy = tmp_path / source.name  # its run folders land beside it
    shutil.copyfile(source, copy)
    outputs = [output for cell in execute(copy).cells if cell.cell_type == "code" for output in cell.outputs]
    assert outputs
    for output in outputs:
        assert output.get("name") != "stderr", output.text
        if output.output_type == "execute_result":
            assert {"text/plain", "text/html"} <= set(output.data), output.data["text/plain"]


@pytest.mark.parametrize("source", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_stored_file_is_small_and_clean(source: Path) -> None:
    text = source.read_text()
    stored = nbformat.reads(text, as_version=4)
    assert len(text) < 500_000
    assert "widgets" not in stored.metadata
    assert "<iframe" not in text
    paths = re.sub(r"/tmp/vfnb-box-\w+", "", text)  # what an agent program was told of its folder
    assert not re.search(r"/(home|root|work|tmp|Users)/", paths), "a path of one machine"
    outputs = json.dumps([cell.get("outputs") for cell in stored.cells])
    assert not re.search(r" at 0x[0-9a-f]{6,}", outputs), "an object's address"
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
