"""Help that fits a screen: the common flags, then the tables by name, then one table in full on demand."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from vfnb.errors import ConfigError
from vfnb.runs.resolve import merge, tree_type
from vfnb.runs.tree import EvalConfig
from vfnb.utils.config import models_in, nearest

if TYPE_CHECKING:
    from vfnb.cli.flags import Command

__all__ = ["help_text", "settings"]

WIDTH = 100
COMMON = {
    "-m, --model NAME": "the model, relayed to OPENAI_BASE_URL",
    "-n N": "only the first N tasks (--select.limit)",
    "-s": "in a random order (--select.shuffle)",
    "-r, --rollouts N": "samples per task",
    "-c, --concurrency N": "rollouts under way at a time",
    "--harness ID": "the agent program: a published name, module:Name or file.py:Name",
    "--runtime TYPE": "where programs run: inprocess, subprocess, ...",
    "--dir DIR": "the run's folder; what it already has is not run again",
    "--fresh": "set an earlier run in the folder aside",
}
PLACES = {
    "TASKSET": "a published name, a module, module:Class or file.py; first of all, if no file names it",
    "@ FILE.toml": "settings; later files win over earlier ones, flags over files",
}


def help_text(
    usage: str, purpose: str, common: Sequence[str], switches: Mapping[str, str], command: Command
) -> str:
    """The help that was asked for.

    Args:
        usage: the form of the command.
        purpose: what it does, in a sentence.
        common: its most used flags, the first letters of keys of `COMMON`.
        switches: its own switches with their descriptions.
        command: what the command line says.

    Raises:
        ConfigError: there is no such table.
    """
    merged = merge(command.layers)
    known = merged.get("taskset", "id") is not None
    tree = tree_type(merged) if known else EvalConfig
    tables = {name: field for name, field in tree.model_fields.items() if _table(field) and name != "record"}
    if command.help:
        if command.help not in tables:
            match = nearest(command.help, tables)
            hint = f"did you mean {match}?" if match else f"there are {', '.join(tables)}"
            raise ConfigError(f"--help {command.help}: no such table of settings; {hint}")
        return "\n".join(_full(command.help, tables[command.help]))
    often = {names: text for names, text in COMMON.items() if names.startswith(tuple(common))}
    own = {f"--{name.replace('_', '-')}": text for name, text in switches.items()}
    own["-h, --help [TABLE]"] = "this, or one table of settings with all its flags"
    lines = [f"usage: {usage}", "", purpose, "", *_rows(PLACES), "", *_rows(often | own), ""]
    shown = ("taskset", "harness") if known else ()
    for name in shown:
        lines += [*_full(name, tables[name]), ""]
    lines += [
        "More settings, as --TABLE.KEY VALUE, or in a file as KEY = VALUE under [TABLE]:",
        *_tables({name: field for name, field in tables.items() if name not in shown}),
    ]
    plain = [
        name
        for name, field in tree.model_fields.items()
        if not _table(field) and f"--{name}" not in " ".join(COMMON)
    ]
    lines += _rows({"(no table)": ", ".join(_dashed(name) for name in plain)})
    lines += [
        "",
        "env.taskset and env.agent.harness (model, runtime, ...) may be written for taskset and harness.",
    ]
    return "\n".join(lines)


def settings(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    """Key, type, default and description of every setting of a model, nested ones too."""
    for name, field in sorted(model.model_fields.items(), key=lambda item: _table(item[1]) is not None):
        key = f"{prefix}.{name}" if prefix else name
        inner = _table(field)
        if inner is not None:
            yield from settings(inner, key)
        else:
            default = (
                None
                if field.is_required()
                else field.get_default(call_default_factory=True, validated_data={})
            )
            yield key, _type(field.annotation), _value(default), " ".join((field.description or "").split())


def _table(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a field that is a table of settings of its own."""
    arguments = [item for item in get_args(field.annotation) if item is not NoneType]
    plain = (
        arguments[0] if len(arguments) == 1 and NoneType in get_args(field.annotation) else field.annotation
    )
    models = models_in(plain)
    return models[0] if len(models) == 1 and models[0] is plain else None


def _full(table: str, field: FieldInfo) -> list[str]:
    model = _table(field)
    assert model is not None
    rows = {}
    for key, kind, default, text in settings(model, table):
        if key in ("taskset.id", "harness.id"):  # TASKSET and --harness
            continue
        shown = f" ({default})" if default else ""
        rows[f"--{_dashed(key)} {kind}".rstrip()] = text + shown
    return [f"[{table}] {field.description}", *_rows(rows)]


def _tables(tables: Mapping[str, FieldInfo]) -> list[str]:
    rows = {}
    for name, field in tables.items():
        model = _table(field)
        assert model is not None
        rows[name] = ", ".join(_dashed(key) for key in model.model_fields)
    return _rows(rows)


def _rows(rows: Mapping[str, str]) -> list[str]:
    lines = []
    wide = min(max((len(name) for name in rows), default=0), 36)
    for name, text in rows.items():
        first, *more = textwrap.wrap(text, WIDTH - wide - 4, break_on_hyphens=False) or [""]
        if len(name) > wide:
            lines += [f"  {name}", f"  {'':{wide}}  {first}"]
        else:
            lines.append(f"  {name:{wide}}  {first}".rstrip())
        lines += [f"  {'':{wide}}  {line}" for line in more]
    return lines


def _dashed(name: str) -> str:
    return name.replace("_", "-")


_TYPES = {int: "INT", float: "NUMBER", str: "TEXT", bool: "", list: "LIST", dict: "JSON", tuple: "LIST"}


def _type(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return "|".join(str(value) for value in get_args(annotation))
    plain = [item for item in get_args(annotation) if item is not NoneType]
    kind = get_origin(annotation) or annotation
    if kind in _TYPES:
        return _TYPES[kind]
    return _type(plain[0]) if plain else "VALUE"


def _value(default: Any) -> str:
    if default is None or default == "" or default == [] or default == {}:
        return ""
    return str(default).lower() if isinstance(default, bool) else str(default)
