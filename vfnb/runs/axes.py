"""The axes of a study: what is varied, the values, and how each is told in a table."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from vfnb.agents import Harness, ScoringConfig, Timeouts, resolve_harness
from vfnb.clients import ModelClient, resolve_model
from vfnb.clients.engines.base import TokenEngine
from vfnb.errors import ConfigError
from vfnb.interception import Limits
from vfnb.runs.override import TABLES, override, split_key
from vfnb.tasks import Task, TaskData, Taskset
from vfnb.types import SamplingConfig
from vfnb.utils.config import nearest
from vfnb.utils.told import place_of

__all__ = ["DESIGNS", "Axis", "Option", "find_axes", "folder_name", "points", "setting_name"]

DESIGNS = ("grid", "list", "paired")
COMMON = ("dir", "resume", "fresh", "concurrency", "max_tokens", "max_cost")
"""Settings of the study as a whole."""
RESERVED = frozenset(
    (
        *(
            "setting",
            "task",
            "task_idx",
            "task_name",
            "rollout",
            "trace",
            "state",
            "ok",
            "stop",
            "error",
            "reward",
        ),
        *("turns", "tokens_in", "tokens_out", "cost", "time_s", "n", "scored", "errors", "cancelled"),
        *("reward_se", "reward_low", "reward_high", "dir"),
    )
)
"""Columns of a study's frames, which no axis may be named."""
_LONG = 40

Values = dict[str, Any]


@dataclass(frozen=True)
class Option:
    """One value of an axis."""

    label: str
    """How it is told; unique within the axis."""
    told: str
    """The same with the name of the axis."""
    value: Any
    columns: Values
    """What tables show of it: plain values by column."""


@dataclass(frozen=True)
class Axis:
    """A setting that is varied."""

    key: str
    """Name of an argument of `evaluate`, or a dotted key."""
    options: tuple[Option, ...]

    @property
    def columns(self) -> list[str]:
        """The columns that it has in tables."""
        return list(dict.fromkeys(name for option in self.options for name in option.columns))

    def apply(self, settings: Mapping[str, Any], option: Option) -> dict[str, Any]:
        """Arguments of `evaluate` with this option."""
        if "." in self.key:
            return override(settings, self.key, option.value)
        return {**settings, self.key: option.value}


_FIELDS: dict[str, type[BaseModel]] = {
    "sampling": SamplingConfig,
    "limits": Limits,
    "timeouts": Timeouts,
    "scoring": ScoringConfig,
}


def _hint(name: str, known: Sequence[str]) -> str:
    """What an unknown setting may mean: a field of a config, or a name that is nearly the same."""
    table = place_of(name, {table: list(config.model_fields) for table, config in _FIELDS.items()})
    if table:
        return f'write axes={{"{table}.{name}": [...]}}'
    match = nearest(name, known)
    return f"did you mean {match!r}?" if match else 'a key of a config has dots, as in "sampling.temperature"'


def find_axes(
    settings: Mapping[str, Any], dotted: Mapping[str, Any], known: Iterable[str]
) -> tuple[dict[str, Any], list[Axis]]:
    """Split what a study is given into fixed settings and axes.

    Args:
        settings: by the names of `evaluate`'s arguments, or by dotted keys.
        dotted: axes by dotted key or name.
        known: the arguments that evaluate has.

    Raises:
        ConfigError: an unknown setting, one that cannot vary, or an axis without values.
    """
    known = list(known)
    fixed: dict[str, Any] = {}
    axes: dict[str, Any] = {}
    for name, value in (*settings.items(), *dotted.items()):
        declared = name in dotted
        if declared and name in settings and _varies(name, settings[name]):
            raise ConfigError(f"axis {name!r} is given twice; keep one of them")
        if "." in name:
            split_key(name)
        elif name not in known:
            raise ConfigError(f"study() takes no {name!r}; {_hint(name, known)}")
        if not (declared or _varies(name, value)):
            _check_table(name, value)
            if "." in name:
                raise ConfigError(
                    f"axis {name!r}: give a list of values, or a dict of them by name, not {value!r}"
                )
            fixed[name] = value
            continue
        if name in COMMON:
            raise ConfigError(f"{name}={value!r} cannot be an axis: it belongs to the study as a whole")
        axes[name] = value
    taken: set[str] = set()
    made = [_axis(name, value, taken) for name, value in axes.items()]
    return fixed, made


def _check_table(name: str, value: Any) -> None:
    """A list in the place of one setting of a table is an axis in the wrong place."""
    if name in TABLES and isinstance(value, Mapping):
        for key, item in value.items():
            field = TABLES[name].model_fields.get(key)
            if field is not None and isinstance(_listed(item), list) and "list" not in str(field.annotation):
                raise ConfigError(
                    f"{name}={value!r}: for an axis write axes={{'{name}.{key}': {_listed(item)!r}}}"
                )


def _varies(name: str, value: Any) -> bool:
    """Whether a value is an axis: a list, or a dict of values by name."""
    value = _listed(value)
    if isinstance(value, Mapping):
        if name not in TABLES and name != "runtime":
            return True
        fields = TABLES[name].model_fields if name in TABLES else {}
        each = all(item is None or isinstance(item, Mapping | BaseModel | str) for item in value.values())
        return bool(value) and each and "type" not in value and not set(value) & set(fields)
    if isinstance(value, list) and name == "taskset":
        return bool(value) and not any(isinstance(item, Task | TaskData) for item in value)
    return isinstance(value, list)


def _listed(value: Any) -> Any:
    """Sequences, ranges and arrays as lists; anything else as it is."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str | bytes) else value


def _axis(key: str, given: Any, taken: set[str]) -> Axis:
    given = _listed(given)
    if not isinstance(given, list | Mapping) or not given:
        raise ConfigError(f"axis {key!r}: give a list of values, or a dict of them by name, not {given!r}")
    column = _column(key, taken)
    named = isinstance(given, Mapping)
    values = [_ready(key, value) for value in (given.values() if isinstance(given, Mapping) else given)]
    tables = [{} if value is None and key in TABLES else _settings(value) for value in values]
    if named:
        labels = [str(name) for name in given]
    elif any(tables) and None not in tables:
        axis = Axis(key, _expanded(key, values, [table or {} for table in tables], taken))
        return _checked(axis, taken)
    else:
        labels = _labels(values)
    plain = not named and all(value is None or isinstance(value, bool | int | float) for value in values)
    options = [
        Option(label, f"{column}={label}", value, {column: value if plain else label})
        for label, value in zip(labels, values, strict=True)
    ]
    return _checked(Axis(key, tuple(options)), taken)


def _checked(axis: Axis, taken: set[str]) -> Axis:
    seen: set[str] = set()
    for option in axis.options:
        if option.label in seen:
            raise ConfigError(
                f"axis {axis.key!r} has the value {option.label} twice; a dict gives values names of their own"
            )
        seen.add(option.label)
    taken.update(axis.columns)
    return axis


def _column(name: str, taken: set[str]) -> str:
    """The last part of a key, or the whole where that is taken."""
    short = name.rpartition(".")[2]
    return name if short in taken or short in RESERVED else short


def _ready(key: str, value: Any) -> Any:
    """Models and harnesses as objects, made once: all cells share them."""
    if key == "model":
        return resolve_model(value)
    return resolve_harness(value) if key == "harness" else value


def _settings(value: Any) -> Values | None:
    """A table of settings as plain values; None for anything else."""
    if isinstance(value, BaseModel):
        value = {name: getattr(value, name) for name in value.model_fields_set}
    if not isinstance(value, Mapping) or not value:
        return None
    plain = all(item is None or isinstance(item, bool | int | float | str) for item in value.values())
    return {str(name): item for name, item in value.items()} if plain else None


def _expanded(
    key: str, values: Sequence[Any], tables: Sequence[Values], taken: set[str]
) -> tuple[Option, ...]:
    """A column for each setting in the tables."""
    columns = {name: _column(f"{key}.{name}", taken) for table in tables for name in table}
    found = []
    for value, table in zip(values, tables, strict=True):
        label = ", ".join(f"{columns[name]}={_text(item)}" for name, item in table.items())
        shown = {column: table.get(name) for name, column in columns.items()}
        found.append(Option(label or "default", label or f"{key}=default", value, shown))
    return tuple(found)


def _labels(values: Sequence[Any]) -> list[str]:
    """A short text for each; a second object of a name becomes `name_2`."""
    found: list[str] = []
    for value in values:
        text = _text(value)
        plain = value is None or isinstance(value, str | bool | int | float)
        count = 1 + sum(_text(other) == text for other in values[: len(found)])
        found.append(f"{text}_{count}" if count > 1 and not plain else text)
    return found


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, str):
        line = " ".join(value.split())
        return (line if len(line) <= _LONG else line[: _LONG - 1] + "…") or "empty"
    if isinstance(value, Harness | ModelClient | TokenEngine | Taskset):
        return str(getattr(value, "name", None) or getattr(value, "model", type(value).__name__))
    if isinstance(value, Mapping | BaseModel):
        table = _settings(value)
        return (
            ", ".join(f"{name}={_text(item)}" for name, item in table.items())
            if table
            else type(value).__name__
        )
    name = getattr(value, "__name__", None)
    return str(name) if isinstance(name, str) else _text(str(value))


def points(axes: Sequence[Axis], design: str) -> list[dict[str, Option]]:
    """The settings of a study: an option for each axis.

    Args:
        axes: at least one.
        design: `grid` (all combinations), `list` (the first values, the second ones, ...) or `paired` (the first
            value of each axis together, then one changed at a time).

    Raises:
        ConfigError: an unknown design, or lists of unequal length.
    """
    keys = [axis.key for axis in axes]
    match design:
        case "grid":
            combined: Iterable[tuple[Option, ...]] = itertools.product(*(axis.options for axis in axes))
        case "list":
            lengths = {axis.key: len(axis.options) for axis in axes}
            if len(set(lengths.values())) > 1:
                told = ", ".join(f"{key} has {length}" for key, length in lengths.items())
                raise ConfigError(
                    f'design="list" takes the axes side by side, so they need equal lengths: {told}'
                )
            combined = zip(*(axis.options for axis in axes), strict=True)
        case "paired":
            first = tuple(axis.options[0] for axis in axes)
            combined = [first] + [
                (*first[:place], option, *first[place + 1 :])
                for place, axis in enumerate(axes)
                for option in axis.options[1:]
            ]
        case _:
            match = nearest(str(design), DESIGNS)
            hint = f"did you mean {match!r}?" if match else f"there are {', '.join(DESIGNS)}"
            raise ConfigError(f"design={design!r}: no such design; {hint}")
    return [dict(zip(keys, options, strict=True)) for options in combined]


def setting_name(point: Mapping[str, Option]) -> str:
    """A setting as one line: `temperature=0.7, harness=null`."""
    return ", ".join(option.told for option in point.values())


def folder_name(point: Mapping[str, Option]) -> str:
    """A setting as a folder's name, whatever the order of the axes."""
    told = "--".join(point[key].told for key in sorted(point))
    return re.sub(r"[^\w.=+-]+", "-", told).strip("-.") or "setting"
