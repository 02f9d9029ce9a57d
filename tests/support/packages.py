"""Small packages made on the spot: modules, and entry points as an installed distribution has them."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["installed"]


@contextmanager
def installed(folder: Path, *, entry_points: str = "", **modules: str) -> Iterator[Path]:
    """Write `modules` into a folder and have it on the import path for a while.

    `entry_points` is the text of `entry_points.txt` of a distribution in the same folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    if entry_points:
        info = folder / "made_here-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: made-here\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(textwrap.dedent(entry_points))
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield folder
    finally:
        sys.path.remove(str(folder))
        for name in modules:
            sys.modules.pop(name, None)
