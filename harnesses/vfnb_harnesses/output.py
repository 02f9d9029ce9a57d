"""Reading what agent programs print: JSON objects, one a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

__all__ = ["json_lines"]


def json_lines(text: str) -> Iterator[dict[str, Any]]:
    """The objects among the lines of an output; lines that are something else are passed over."""
    for line in text.split("\n"):  # JSON may hold other line separators
        if not line.startswith("{"):
            continue
        try:
            value = json.loads(line)
        except ValueError:  # cut by the limit of the output, or no JSON at all
            continue
        if isinstance(value, dict):
            yield value
