"""The pages on configuration say what the models say."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import vfnb as vf
from vfnb.cli.main import eval_main

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from config_keys import PAGE, page  # noqa: E402


def test_the_table_of_keys_is_that_of_the_models() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run: python scripts/config_keys.py"


def test_every_key_has_a_meaning() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|.*\| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) > 60
    assert [key for key, meaning in rows if not meaning.strip()] == []


def test_the_example_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    example = re.search(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    Path("run.toml").write_text(example[1])
    assert eval_main(["@", "run.toml", "--dry-run"]) == 0
    assert 'id = "addition"' in capsys.readouterr().out
    config = vf.EvalConfig.load("run.toml", sampling={"temperature": 0})
    assert config.sampling.temperature == 0
