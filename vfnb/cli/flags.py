"""From the words of a command line to layers of settings."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pydantic import create_model
from pydantic_settings import BaseSettings, CliSettingsSource, SettingsError

from vfnb.cli.advice import unknown_flags
from vfnb.errors import ConfigError
from vfnb.runs.layers import Layer, read_layer
from vfnb.runs.layouts import AGENT, SHORT
from vfnb.runs.resolve import merge, tree_type
from vfnb.runs.tree import EvalConfig

__all__ = ["HELP", "Command", "read"]

HELP = ("-h", "--help")
_NOT_FLAGS = {"record"}


@dataclass(frozen=True)
class Command:
    """What a command line says."""

    layers: list[Layer]
    """Files, then the taskset's name, then flags."""
    switches: frozenset[str]
    """Those of the command's own switches that are set."""
    help: str | None
    """What help is asked for: `""` for all, the name of a table, or None for none."""


def read(words: Sequence[str], switches: Sequence[str]) -> Command:
    """Understand a command line: `TASKSET` first if at all, `@ FILE` anywhere, flags.

    Args:
        words: what follows the command's name.
        switches: the command's own flags without a value, such as `dry_run`.

    Raises:
        ConfigError: a word that means nothing, with the nearest one that does.
    """
    rest = list(words)
    layers: list[Layer] = []
    if rest and not rest[0].startswith(("-", "@")):
        layers.append(Layer(data={"taskset": rest.pop(0)}))
    layers[:0] = [read_layer(path) for path in _files(rest)]
    wanted = _help(rest)
    # The taskset, harness and runtime decide which further flags there are.
    first, _, extra = _parse(rest, EvalConfig, switches)
    merged = merge([*layers, first])
    known = merged.get("taskset", "id") is not None
    if not known and extra and not extra[0].startswith("-"):
        raise ConfigError(unknown_flags(extra[:1], _flags(EvalConfig), switches))
    tree = tree_type(merged) if known or wanted is None else EvalConfig
    last, given, extra = _parse(rest, tree, switches)
    if extra:
        raise ConfigError(unknown_flags(extra, _flags(tree), switches))
    return Command([*layers, last], given, wanted)


def _files(rest: list[str]) -> list[Path]:
    """Take the config files out of the words."""
    found: list[Path] = []
    while True:
        at = next((i for i, word in enumerate(rest) if word == "@" or _joined(word)), None)
        if at is None:
            return found
        word = rest.pop(at)
        if word == "@":
            if at == len(rest):
                raise ConfigError("@: name a TOML file after it, as in @ run.toml")
            word = "@" + rest.pop(at)
        found.append(Path(word[1:]))


def _joined(word: str) -> bool:
    return word.startswith("@") and word.endswith(".toml")


def _help(rest: list[str]) -> str | None:
    at = next((i for i, word in enumerate(rest) if word in HELP), None)
    if at is None:
        return None
    del rest[at]
    table = at < len(rest) and not rest[at].startswith("-")
    return rest.pop(at).replace("-", "_") if table else ""


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        name, colon, text = message.removeprefix("argument ").partition(": ")
        raise ConfigError(f"{name.replace('_', '-')}{colon}{text}")


def _flags(tree: type[EvalConfig]) -> type[BaseSettings]:
    """All settings in both layouts, each with a flag of its own. It only makes the parser, no values."""

    def optional(names: Sequence[str]) -> Any:
        return {name: (tree.model_fields[name].annotation, None) for name in names}

    agent = create_model("Agent", **optional(AGENT))
    env = create_model("Env", agent=(agent, None), **optional(["taskset"]))
    plain = [name for name in tree.model_fields if name not in _NOT_FLAGS]
    return create_model("Flags", __base__=BaseSettings, n=(int, None), **optional(plain), env=(env, None))


def _parse(
    words: Sequence[str], tree: type[EvalConfig], switches: Sequence[str]
) -> tuple[Layer, frozenset[str], list[str]]:
    """The flags as a layer, the switches, and what was not understood."""
    parser = _Parser(allow_abbrev=False, add_help=False, conflict_handler="resolve")
    source: CliSettingsSource[Any] = CliSettingsSource(
        _flags(tree),
        root_parser=parser,
        cli_implicit_flags=True,
        cli_shortcuts={"rollouts": "r", "concurrency": "c", "select.shuffle": "s"},
    )
    for name in SHORT:
        parser.add_argument(*(["-m"] if name == "model" else []), f"--{name}", dest=f"@{name}")
    for switch in switches:
        parser.add_argument(f"--{switch}", dest=f"@{switch}", action="store_true")
    found, extra = parser.parse_known_args([_plain(word) for word in words])
    own = {name[1:]: value for name, value in vars(found).items() if name.startswith("@")}
    settings = Namespace(**{name: value for name, value in vars(found).items() if not name.startswith("@")})
    try:
        data: dict[str, Any] = source(parsed_args=settings)()
    except SettingsError as error:
        place = str(error).partition(" from source")[0]
        raise ConfigError(f"{place}: {error.__cause__}; tables and lists are given as JSON") from error
    for name, key in SHORT.items():
        if own[name] is not None:
            data[name] = {**data[name], key: own[name]} if name in data else own[name]
    return Layer(data=data, flags=True), frozenset(s for s in switches if own[s]), extra


def _plain(word: str) -> str:
    """`--taskset.num-tasks=3` with the name as the models have it; short flags and values stay."""
    if not word.startswith("--"):
        return word
    name, equals, value = word[2:].partition("=")
    no = "no-" if name.startswith("no-") else ""
    return f"--{no}{name.removeprefix(no).replace('-', '_')}{equals}{value}"
