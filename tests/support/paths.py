"""Where the reference material is, if it is there at all."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def shared() -> Path:
    """The folder of recorded requests and seeds: `VFNB_SHARED`, else the sibling of the project."""
    return Path(os.environ.get("VFNB_SHARED", ROOT.parent / "shared"))
