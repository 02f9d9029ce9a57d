"""The notebook on tokens: a training loop whose reward rises, with PyTorch."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from support.engines import need
from support.notebooks import execute
from support.paths import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import smollm2

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


def test_it_runs_and_its_reward_rises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(smollm2.is_ready(), "the environment with PyTorch", "make smollm2")
    monkeypatch.delenv("VFNB_SMOLLM2", raising=False)
    copy = tmp_path / "04_tokens.ipynb"
    shutil.copyfile(ROOT / "notebooks" / "04_tokens.ipynb", copy)
    outputs = [output for cell in execute(copy).cells if cell.cell_type == "code" for output in cell.outputs]
    for output in outputs:
        assert output.get("name") != "stderr", output.text
        if output.output_type == "execute_result":
            assert {"text/plain", "text/html"} <= set(output.data), output.data["text/plain"]
    said = "".join(output.text for output in outputs if output.output_type == "stream")
    found = re.search(r"^(\[0\.\d.*\])$", said, re.MULTILINE)
    assert found is not None, said
    means = json.loads(found[1])
    assert sum(means[-3:]) / 3 > means[0] + 0.1, means
    gap = re.search(r"largest difference: (\S+)", said)
    assert gap is not None and float(gap[1]) < 1e-3, said
    written = {path.name for path in (tmp_path / "export").iterdir()}
    assert {"episodes", "run", "sft", "manifest.json"} <= written
