"""What is to be installed: enough to build it, to check it and to find it again."""

from __future__ import annotations

import hashlib
import platform
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfnb.utils.ids import canonical_json, digest

if TYPE_CHECKING:
    from vfnb.installs.installed import Installed

__all__ = ["Recipe", "Run"]

LAYOUT = 1  # of an entry on disk; a new number leaves the old ones alone

Run = Callable[[Sequence[str | Path]], Awaitable[str]]
"""Runs a command in the folder that is being built and gives its output; a failing one is an InstallError."""


class Recipe(ABC):
    """Base of recipes, which are frozen dataclasses. `Npm` and `PyPI` are the ready ones."""

    version: str
    """The version that must be found in what the program prints."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The program's name."""

    @property
    def label(self) -> str:
        """Name and version, for messages."""
        return f"{self.name} {self.version}"

    @property
    def hint(self) -> str:
        """What to look at if an installer fails."""
        return ""

    @property
    def needs(self) -> tuple[Recipe, ...]:
        """What must be installed first."""
        return ()

    @abstractmethod
    async def build(self, tree: Path, needs: Sequence[Installed], run: Run) -> None:
        """Put the program into the empty folder `tree`, where it will stay.

        Raises:
            InstallError: it cannot be had.
        """

    @abstractmethod
    def installed(self, tree: Path, printed: str, needs: Sequence[Installed]) -> Installed:
        """How a built program is used."""

    @abstractmethod
    def checking(self, installed: Installed) -> Sequence[str | Path]:
        """The command that prints the version."""

    @abstractmethod
    def parts(self, installed: Installed) -> Sequence[Path]:
        """Files without which it cannot run."""

    def described(self) -> dict[str, Any]:
        """All that decides what is built, as JSON values."""
        own: Any = self
        return {"kind": type(self).__name__, **asdict(own)}

    @property
    def machine(self) -> tuple[str, ...]:
        """What of this machine decides what is built."""
        return (sys.platform, platform.machine())

    @property
    def key(self) -> str:
        """Name of its entry in the cache: `codex-0.171.0-` and 10 hex digits over everything that counts."""
        files = [digest_of(text) for text in _texts(self.described()) if Path(text).is_absolute()]
        whole = digest(canonical_json([LAYOUT, self.described(), self.machine, files]), size=5)
        return "-".join([*(re.sub(r"[^\w.+]+", "_", text) for text in (self.name, self.version)), whole])

    def matches(self, printed: str) -> bool:
        """Whether a text has exactly this version in it, not a longer number."""
        return re.search(rf"(?<![\d.]){re.escape(self.version)}(?![-.+]?\w)", printed) is not None


def digest_of(path: str) -> str:
    """Digest of a local package, so that another one at the same place is another program."""
    file = Path(path)
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for entry in value.values() for text in _texts(entry)]
    if isinstance(value, list | tuple):
        return [text for entry in value for text in _texts(entry)]
    return [value] if isinstance(value, str) else []
