"""Folders that are there as a whole or not at all."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from vfnb.errors import ConfigError

__all__ = ["MANIFEST", "fresh_folder"]

MANIFEST = "manifest.json"


@contextlib.contextmanager
def fresh_folder(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """An empty folder beside `target` that takes its place at the end, or is deleted after an error.

    Raises:
        ConfigError: `target` exists and may not be replaced. Only an export, which has a manifest, ever is.
    """
    _check(target, overwrite)
    target.parent.mkdir(parents=True, exist_ok=True)
    work = target.parent / f".{target.name}.{uuid4().hex[:8]}.tmp"
    work.mkdir()
    try:
        yield work
        _check(target, overwrite)  # somebody may have come first
        old = target.parent / f".{target.name}.{uuid4().hex[:8]}.old"
        if target.exists():
            target.rename(old)
        work.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _check(target: Path, overwrite: bool) -> None:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise ConfigError(f"{target} exists; give another folder, or overwrite=True (--overwrite)")
    if not (target / MANIFEST).is_file():
        raise ConfigError(
            f"{target} is no export (it has no {MANIFEST}) and is not replaced; give another folder"
        )
