"""`vfnb harness`: which agent programs there are, and installing them ahead of their first use."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from vfnb.cli.main import FAILED
from vfnb.errors import ConfigError, InstallError
from vfnb.utils.config import build

if TYPE_CHECKING:
    from vfnb.installs import Recipe

__all__ = ["run"]

SHOWN = (
    "name",
    "kind",
    "version",
    "installed",
    "tested",
    "dialects",
    "tools",
    "resume",
    "max_turns",
    "rewrites",
)


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def run(words: Sequence[str]) -> int:
    """Run the command; returns the exit status."""
    asked = _parser().parse_args(list(words))
    if asked.what == "list":
        print(_listed())
        return 0
    recipes = [_recipe(name, asked.version) for name in asked.name]
    if asked.what == "remove":
        return _remove(recipes)
    return _install(recipes)


def _parser() -> ArgumentParser:
    parser = _Parser(prog="vfnb harness", description="Agent programs: what there is, and installing them.")
    parts = parser.add_subparsers(
        dest="what", required=True, metavar="list|install|remove", parser_class=_Parser
    )
    parts.add_parser("list", help="all harnesses, with what each supports and which version is installed")
    for name, text in (
        ("install", "install the program of a harness once for this machine; later runs need no network"),
        ("remove", "delete an installed program"),
    ):
        part = parts.add_parser(name, help=text, description=text)
        part.add_argument("name", nargs="+", help="a published name, module:Class or file.py:Class")
        part.add_argument("--version", help="another version than the harness's own")
    return parser


def _recipe(name: str, version: str | None) -> Recipe:
    from vfnb.agents import Harness, find_harness

    found: Any = find_harness(name)
    if not hasattr(found, "recipe"):
        raise ConfigError(f"harness {name!r} is no program that is installed; it is ready as it is")
    if not isinstance(found, Harness):
        found = found(build(found.config_type(), {"version": version}))
    recipe: Recipe = found.recipe()
    return recipe


def _install(recipes: Sequence[Recipe]) -> int:
    from vfnb.installs import ensure

    failed = False
    for recipe in recipes:
        try:
            there = asyncio.run(ensure(recipe, lambda line: print(line, file=sys.stderr)))
        except InstallError as error:
            print(f"vfnb harness install: {error}", file=sys.stderr)
            failed = True
        else:
            print(f"{recipe.label}: {there.printed} in {there.folder}")
    return FAILED if failed else 0


def _remove(recipes: Sequence[Recipe]) -> int:
    from vfnb.installs import remove

    for recipe in recipes:
        print(f"{recipe.label}: {'removed' if remove(recipe) else 'was not installed'}")
    return 0


def _listed() -> str:
    """The table as text, and what went wrong below it."""
    from vfnb.agents.catalog import catalog

    rows = catalog()
    cells = [SHOWN, *([_cell(row[name]) for name in SHOWN] for row in rows if row["error"] is None)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(SHOWN))]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join(
        [*lines, *(f"{row['name']}: {row['error']}" for row in rows if row["error"] is not None)]
    )


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
