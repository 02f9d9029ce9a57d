"""What a common folder of runs says about itself, in one small JSON file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vfnb.errors import StoreError

__all__ = ["COMPARISON", "STUDY", "read_manifest", "write_manifest"]

COMPARISON = "comparison.json"
STUDY = "study.json"


def read_manifest(folder: Path, name: str) -> dict[str, Any]:
    """The file's content; `{}` if there is none.

    Raises:
        StoreError: it cannot be read, or is not what we write.
    """
    path = folder / name
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}; mend it, or run the same call again") from error
    if not isinstance(found, dict):
        raise StoreError(f"{path} holds no JSON object; run the same call again")
    return found


def write_manifest(folder: Path, name: str, content: dict[str, Any]) -> None:
    """Write the file as a whole: a process that dies here leaves the old one."""
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f"{name}.new"
    new.write_text(json.dumps(content, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
    new.replace(folder / name)
