"""Where things are kept that can be made again."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["cache_root"]


def cache_root(environ: Mapping[str, str] = os.environ) -> Path:
    """`$VFNB_CACHE`, or `vfnb` in the platform's cache folder."""
    if environ.get("VFNB_CACHE"):
        return Path(environ["VFNB_CACHE"]).expanduser().absolute()
    home = Path.home()
    default = home / "Library/Caches" if sys.platform == "darwin" else home / ".cache"
    return Path(environ.get("XDG_CACHE_HOME") or default) / "vfnb"
