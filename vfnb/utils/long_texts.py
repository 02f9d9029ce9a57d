"""Long texts are hashed once: whatever a message is known by takes their digest in place of them."""

from __future__ import annotations

from blake3 import blake3

__all__ = ["LONG", "text_digest"]

LONG = 4096
"""Characters. What is longer is hashed apart from what it stands in."""


def text_digest(text: str) -> bytes:
    """16 bytes: BLAKE3 of a text in UTF-8, lone surrogates as they are."""
    return blake3(text.encode("utf-8", "surrogatepass")).digest(16)
