"""One setting of a run replaced by its dotted key, on the objects that `evaluate` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from vfnb.agents import Harness, ScoringConfig, Timeouts, resolve_harness
from vfnb.agents.function import FunctionHarness
from vfnb.errors import ConfigError, VfnbError
from vfnb.interception import Limits
from vfnb.runs.source import as_taskset
from vfnb.runtimes import runtime_config
from vfnb.tasks import Taskset
from vfnb.types import SamplingConfig
from vfnb.utils.config import build, nearest

__all__ = ["TABLES", "override", "split_key"]

TABLES: dict[str, type[BaseModel]] = {
    "sampling": SamplingConfig,
    "limits": Limits,
    "timeouts": Timeouts,
    "scoring": ScoringConfig,
}
_ROOTS = ("taskset", "task", "harness", "runtime", *TABLES)


def split_key(key: str) -> tuple[str, ...]:
    """A dotted key as its parts; `task.x` is short for `taskset.task.x`.

    Raises:
        ConfigError: it begins with no table that has settings.
    """
    keys = tuple(key.split("."))
    if keys[0] not in _ROOTS or not all(keys):
        match = nearest(keys[0], _ROOTS)
        hint = f"did you mean {match}?" if match else f"a key begins with one of {', '.join(_ROOTS)}"
        advice = "; give models as model=[...]" if keys[0] == "model" else f"; {hint}"
        raise ConfigError(f"axis {key!r}: no such setting{advice}")
    return ("taskset", *keys) if keys[0] == "task" else keys


def override(settings: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Arguments of `evaluate` with the setting of a dotted key replaced.

    Raises:
        ConfigError: there is no such setting, or the value is wrong; the message has the key.
    """
    root, *keys = split_key(key)
    change = _CHANGES.get(root, _table)
    return {**settings, root: change(settings, root, keys, value)}


def _table(settings: Mapping[str, Any], root: str, keys: Sequence[str], value: Any) -> Any:
    return _replaced(build(TABLES[root], settings.get(root), path=root), keys, value, root)


def _runtime(settings: Mapping[str, Any], root: str, keys: Sequence[str], value: Any) -> Any:
    given = settings.get(root)
    if given is None:
        given = (resolve_harness(settings["harness"]).RUNTIMES or ("inprocess",))[0]
    return _replaced(runtime_config(given), keys, value, root)


def _taskset(settings: Mapping[str, Any], root: str, keys: Sequence[str], value: Any) -> Taskset[Any, Any]:
    source = as_taskset(settings[root])
    config = _replaced(source.config, keys, value, root)
    try:
        return source.with_config(config)
    except VfnbError:
        raise
    except TypeError as error:
        raise ConfigError(
            f"{root}.{'.'.join(keys)}: {type(source).__name__} cannot be made from its config alone: {error}"
        ) from error


def _harness(settings: Mapping[str, Any], root: str, keys: Sequence[str], value: Any) -> Harness[Any]:
    program = resolve_harness(settings[root])
    if isinstance(program, FunctionHarness):
        raise ConfigError(
            f"harness.{'.'.join(keys)}: {program.name!r} is a function and has no settings; give several functions "
            "as harness=[...], or leave it out of this axis"
        )
    config = _replaced(program.config, keys, value, root)
    made: Harness[Any] = type(program)(config)
    return made


_CHANGES: dict[str, Callable[[Mapping[str, Any], str, Sequence[str], Any], Any]] = {
    "runtime": _runtime,
    "taskset": _taskset,
    "harness": _harness,
}


def _replaced(config: Any, keys: Sequence[str], value: Any, path: str) -> Any:
    """A config with one of its fields, at any depth, replaced and checked; what was explicit stays so."""
    key, *rest = keys
    if isinstance(config, dict):
        return {**config, key: _replaced(config.get(key), rest, value, f"{path}.{key}") if rest else value}
    if not isinstance(config, BaseModel):
        raise ConfigError(f"{path}: it has no settings; give the whole as the values of the axis {path!r}")
    given = {name: getattr(config, name) for name in config.model_fields_set}
    if rest:
        if key not in type(config).model_fields:
            return build(type(config), {**given, key: value}, path=path)  # raises, with the nearest key
        value = _replaced(getattr(config, key), rest, value, f"{path}.{key}")
    return build(type(config), {**given, key: value}, path=path)
