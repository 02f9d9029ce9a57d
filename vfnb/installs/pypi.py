"""Programs from Python packages, each in a virtual environment of its own."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vfnb.errors import InstallError
from vfnb.installs.installed import Installed
from vfnb.installs.recipe import Recipe, Run

__all__ = ["HINT", "PyPI", "find_uv", "link", "pip_install"]

HINT = (
    "Is the network up, and do your settings of uv or pip (`pip config list`) say where packages are? "
    "`pip index versions {package}` shows which versions there are."
)


@dataclass(frozen=True)
class PyPI(Recipe):
    """A program of Python packages.

    Args:
        requirements: as pip takes them, the program's own package first; local wheels by absolute path.
        version: must be in what the program prints as its version.
        program: the console script to expose; "" if the packages are only imported, by `Installed.python`.
        check: arguments that make the program print its version; without, the installed package's version counts.
        python: version or path of the interpreter; "" takes the one that runs here.
    """

    requirements: tuple[str, ...]
    version: str
    program: str = field(kw_only=True, default="")
    check: tuple[str, ...] = field(kw_only=True, default=())
    python: str = field(kw_only=True, default="")

    def __post_init__(self) -> None:
        if isinstance(self.requirements, str):
            raise TypeError(f"requirements is a tuple of requirements, as in ({self.requirements!r},)")

    @property
    def package(self) -> str:
        """Name of the first requirement."""
        first = self.requirements[0]
        if Path(first).is_absolute():
            first = Path(first).name.partition("-")[0]
        found = re.match(r"[\w.-]*\w", first)
        return found[0] if found else first

    @property
    def name(self) -> str:
        return self.program or self.package

    @property
    def hint(self) -> str:
        return HINT.format(package=self.package)

    @property
    def machine(self) -> tuple[str, ...]:
        return (*super().machine, self.python or "{}.{}".format(*sys.version_info))

    async def build(self, tree: Path, needs: Sequence[Installed], run: Run) -> None:
        uv = find_uv()
        python = self.python or sys.executable
        if uv is not None:
            await run([uv, "venv", "--quiet", "--python", python, tree / "env"])
        else:
            await run([_interpreter(python), "-m", "venv", tree / "env"])
        await pip_install(run, tree / "env/bin/python", self.requirements)
        if self.program:
            link(tree, tree / "env/bin", self.program, self.label)
        (tree / "bin").mkdir(exist_ok=True)

    def installed(self, tree: Path, printed: str, needs: Sequence[Installed]) -> Installed:
        python = tree / "env/bin/python"
        return Installed(self.name, self.version, printed, tree, (tree / "bin",), python)

    def checking(self, installed: Installed) -> Sequence[str | Path]:
        if self.check and self.program:
            return [installed.program, *self.check]
        assert installed.python is not None
        if self.check:
            return [installed.python, *self.check]
        ask = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
        return [installed.python, "-I", "-c", ask, self.package]

    def parts(self, installed: Installed) -> Sequence[Path]:
        assert installed.python is not None
        return [installed.python, *([installed.program] if self.program else [])]


def find_uv() -> str | None:
    """uv on PATH or beside the interpreter that runs here."""
    return shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


async def pip_install(
    run: Run, python: Path | str, requirements: Sequence[str], *, target: Path | None = None
) -> None:
    """Install packages for an interpreter, by uv or else by pip, with the user's own settings of either."""
    uv = find_uv()
    into: list[str | Path] = [] if target is None else ["--target", target]
    if uv is not None:
        await run(
            [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python, *into, *requirements]
        )
    else:
        await run([python, "-m", "pip", "install", "--quiet", "--no-input", *into, *requirements])


def link(tree: Path, folder: Path, program: str, label: str) -> None:
    """Expose one program of a folder in `tree/bin`.

    Raises:
        InstallError: it is not there.
    """
    (tree / "bin").mkdir(exist_ok=True)
    if not (folder / program).exists():
        others = sorted(path.name for path in folder.iterdir())[:20] if folder.is_dir() else []
        raise InstallError(f"{label} has no program {program!r}; it has {', '.join(others) or 'none'}")
    (tree / "bin" / program).symlink_to(folder / program)


def _interpreter(python: str) -> str:
    """The path of an interpreter that is given by path or by version."""
    found = shutil.which(python) or shutil.which(f"python{python}")
    if found is None:
        raise InstallError(f"there is no Python {python} on this machine; install it, or install uv")
    return found
