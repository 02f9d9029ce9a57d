"""Rows of local JSONL files: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vfnb.errors import TasksetError

__all__ = ["DATA", "rows"]

DATA = Path(__file__).parent / "data"
"""The small files that come with these tasksets."""


def rows(path: str | Path, *fields: str) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file, one by one; empty lines are skipped.

    Args:
        path: the file.
        fields: keys that each object must have.

    Raises:
        TasksetError: no such file, or a line that is no object or lacks a key; the message has its number.
    """
    place = Path(path).expanduser()
    if not place.is_file():
        raise TasksetError(f"no file {place}; give the path of a JSONL file")
    with place.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _row(line, f"{place}, line {number}", fields)


def _row(line: str, where: str, fields: tuple[str, ...]) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise TasksetError(f"{where}: not valid JSON: {error}") from error
    if not isinstance(row, dict):
        raise TasksetError(
            f"{where}: expected an object like {{{', '.join(fields)}}}, got {line.strip()[:40]}"
        )
    missing = [field for field in fields if field not in row]
    if missing:
        raise TasksetError(
            f"{where}: no {', '.join(map(repr, missing))}; there are {', '.join(row) or 'no keys'}"
        )
    return row
