"""Numbers and untrusted text as short words, the same in text and html."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any

__all__ = ["clip", "count", "listing", "money", "number", "one_line", "plain", "seconds"]

# Everything that could move the cursor, recolour a terminal or reorder what the reader sees.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """Untrusted text without control, direction and half characters; they are shown as `\\x1b`."""
    return _UNSAFE.sub(lambda found: _escape(found.group()), text.replace("\r\n", "\n"))


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def clip(text: str, limit: int) -> str:
    """At most `limit` characters, with what was cut in numbers."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]} … ({len(text) - limit:,} more characters)"


def one_line(value: Any, limit: int = 80) -> str:
    """Any value as one short line; a cut is marked by `…`."""
    text = value if isinstance(value, str) else _json(value)
    text = " ".join(plain(text[: 4 * limit]).split())
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        return str(value)


def number(value: float | None, digits: int = 3) -> str:
    """A figure with `digits` significant ones; `-` for None."""
    if value is None:
        return "-"
    if math.isfinite(value) and value == int(value) and abs(value) < 1e6:
        return f"{value:.1f}"
    return f"{value:.{digits}g}"


def count(value: int) -> str:
    """A count: `950`, `12.3k`, `4.56M`."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if abs(value) >= size * 10 or (abs(value) >= size and size > 1_000):
            return f"{value / size:.3g}{unit}"
    return f"{value:,}"


def money(dollars: float | None) -> str:
    """US dollars; `cost unknown` for None."""
    if dollars is None:
        return "cost unknown"
    return f"${dollars:.2f}" if dollars >= 1 or dollars == 0 else f"${dollars:.2g}"


def seconds(value: float | None) -> str:
    """A duration: `0.45 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if value is None:
        return "-"
    if value < 10:
        return f"{value:.2g} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def listing(parts: Iterable[str], separator: str = " · ") -> str:
    """The parts that say something, joined."""
    return separator.join(part for part in parts if part)
