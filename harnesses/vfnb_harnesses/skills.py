"""Skill folders: a SKILL.md each, and whatever lies beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from vfnb.errors import ConfigError
from vfnb.utils.ids import digest

__all__ = ["check_skills", "skill_files", "skills_digest"]


def check_skills(folders: Sequence[str]) -> None:
    """Refuse folders that are no skills.

    Raises:
        ConfigError: one does not exist or has no SKILL.md, or two have one name.
    """
    names: dict[str, str] = {}
    for folder in folders:
        path = Path(folder).expanduser()
        if not (path / "SKILL.md").is_file():
            what = "has no SKILL.md" if path.is_dir() else "is no folder"
            raise ConfigError(f"harness.skills: {folder!r} {what}; name a folder with a SKILL.md in it")
        name = path.resolve().name
        if name in names:
            raise ConfigError(f"harness.skills: {names[name]!r} and {folder!r} are both named {name!r}")
        names[name] = folder


def skill_files(folders: Sequence[str], under: str) -> dict[str, bytes]:
    """All files of the folders, by their path under `under/<name of the folder>`."""
    return {
        f"{under}/{root.name}/{file.relative_to(root).as_posix()}": file.read_bytes()
        for root, file in _files(folders)
    }


def skills_digest(folders: Sequence[str]) -> str:
    """What the folders hold, in 32 hex digits; empty without folders."""
    if not folders:
        return ""
    parts: list[str | bytes] = []
    for root, file in _files(folders):
        parts += [root.name, file.relative_to(root).as_posix(), file.read_bytes()]
    return digest(*parts)


def _files(folders: Sequence[str]) -> Iterator[tuple[Path, Path]]:
    for folder in folders:
        root = Path(folder).expanduser().resolve()
        for file in sorted(root.rglob("*")):
            if file.is_file():
                yield root, file
