"""Opening zstd frames with one decompressor per thread: a new one costs as much as a small frame."""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["expand"]

_own = threading.local()


def expand(packed: bytes) -> bytes:
    """The content of one frame.

    Raises:
        zstandard.ZstdError: it is damaged.
    """
    tool: Any = getattr(_own, "tool", None)
    if tool is None:
        from zstandard import ZstdDecompressor

        tool = _own.tool = ZstdDecompressor()  # not to be used by two threads at once
    raw: bytes = tool.decompress(packed)
    return raw
