"""Identifiers and digests."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any

__all__ = ["canonical_json", "digest", "new_id"]


def new_id() -> str:
    """A random identifier of 16 hex digits (64 bits)."""
    return secrets.token_hex(8)


def canonical_json(value: Any) -> bytes:
    """A JSON value with sorted keys and no white space, UTF-8. Equal values give equal bytes."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def digest(*parts: bytes | str, size: int = 16) -> str:
    """BLAKE2b of the parts, each with its length in front, as `2 * size` hex digits."""
    state = hashlib.blake2b(digest_size=size)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()
