"""Folders that are there as a whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from vfnb.errors import ConfigError

__all__ = ["MANIFEST", "fresh_folder", "listed"]

MANIFEST = "manifest.json"


def listed(folder: Path) -> list[str]:
    """The files below a folder as sorted relative paths; a link is one, whatever it leads to."""
    found = []
    for here, folders, files in os.walk(folder):
        links = [name for name in folders if (Path(here) / name).is_symlink()]
        found += [str((Path(here) / name).relative_to(folder)) for name in (*files, *links)]
    return sorted(found)


@contextlib.contextmanager
def fresh_folder(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """An empty folder beside `target` that takes its place at the end, or is deleted after an error.

    Raises:
        ConfigError: `target` exists and may not be replaced. Only an export ever is, and only if all
            files in it are its own.
    """
    _check(target, overwrite)
    work = target.parent / f".{target.name}.{uuid4().hex[:8]}.tmp"
    try:
        work.mkdir(parents=True)
    except OSError as error:
        raise ConfigError(f"{target} cannot be made: {error}; give another folder") from error
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
    try:
        own = set(json.loads((target / MANIFEST).read_bytes())["files"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{target / MANIFEST} does not say which files are the export's ({error!r}), and nothing is replaced; "
            "delete the folder yourself, or give another one"
        ) from error
    foreign = [name for name in listed(target) if name not in own | {MANIFEST}]
    if foreign:
        more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        raise ConfigError(
            f"{target} has files that are not the export's and is not replaced: {', '.join(foreign[:3])}{more}; "
            "move them, or give another folder"
        )
