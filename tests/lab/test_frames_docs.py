"""The page of the frames lists the columns that there are."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from frame_columns import PAGE, page

from vfnb.lab.schema import LEVELS


def test_the_page_of_frames_has_every_column() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run: python scripts/frame_columns.py"
    assert all(f"\n### {level}\n" in text for level in LEVELS)
