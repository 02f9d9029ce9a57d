"""A program that is installed, and the environment in which it runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Installed"]


@dataclass(frozen=True)
class Installed:
    """One installed program. It stays where it is: nothing in it may be changed.

    Attributes:
        name: the program.
        version: what was asked for, and found in what the program printed.
        printed: what it printed when it was asked for its version.
        folder: where all of it lies.
        path: folders in front of PATH, the one with the program first.
        python: interpreter of its environment, None for a program that is not Python.
    """

    name: str
    version: str
    printed: str
    folder: Path
    path: tuple[Path, ...]
    python: Path | None = None

    @property
    def bin(self) -> Path:
        """The folder with the program."""
        return self.path[0]

    @property
    def program(self) -> Path:
        """The program itself."""
        return self.bin / self.name

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Variables to set on top of `base` for this program.

        PATH with the program's folders first; and nothing by which another Python installation could reach into it.
        """
        front = [str(folder) for folder in self.path]
        found = {"PATH": os.pathsep.join([*front, base.get("PATH") or os.defpath])}
        if self.python is not None:
            found |= {name: "" for name in ("PYTHONPATH", "PYTHONHOME") if base.get(name)}
        return found
