"""Hooks by config: tables of functions that join, replace or re-weigh the task's own hooks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import PlainSerializer, WithJsonSchema, field_validator, model_validator

from vfnb.errors import ConfigError, HookError
from vfnb.tasks.hooks import MARKED, HookSpec, defined, plain_spec
from vfnb.utils.config import OBJECT, BaseConfig, nearest
from vfnb.utils.imports import import_current

if TYPE_CHECKING:
    from vfnb.tasks.task import TaskConfig

__all__ = ["HookConfig", "MetricConfig", "Plugged", "RewardConfig", "StopConfig", "plug"]

TABLES = {"stop": "stops", "metric": "metrics", "reward": "rewards"}
"""The tables of a TaskConfig by kind of hook."""

Plugged = Mapping[str, list[tuple[HookSpec, str | Callable[..., Any]]]]
"""By kind: each hook's spec, and its function or the name of the task's method, in the order in which they run."""


def _written(function: Any) -> Any:
    """A function as a saved config has it."""
    return OBJECT + getattr(function, "__qualname__", repr(function)) if callable(function) else function


Function = Annotated[
    str | Callable[..., Any] | None, PlainSerializer(_written), WithJsonSchema({"type": ["string", "null"]})
]


class HookConfig(BaseConfig):
    """One entry of a table of hooks. What is left out stays as the task's own method of that name has it."""

    KIND: ClassVar[str] = ""

    fn: Function = None
    """`pkg.module:function`, `pkg.module.function` or `path/to/file.py:function`; in Python also the function.
    Left out, the task's own method stays and only its settings change."""
    priority: float | None = None
    """Higher runs first."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        """A function in place of a table."""
        return {"fn": data} if callable(data) or isinstance(data, str) else data

    @field_validator("fn")
    @classmethod
    def _usable(cls, value: Any) -> Any:
        if value is not None:
            try:
                plain_spec(_load(value), cls.KIND)
            except HookError as error:
                raise ValueError(str(error)) from error
        return value

    def settings(self) -> dict[str, Any]:
        """What the entry says about the hook, besides its function."""
        return self.model_dump(exclude_none=True, exclude={"fn"})


class MetricConfig(HookConfig):
    """A metric of a table."""

    KIND: ClassVar[str] = "metric"


class RewardConfig(HookConfig):
    """A reward of a table."""

    KIND: ClassVar[str] = "reward"

    weight: float | None = None
    """Factor in the sum of rewards."""

    @field_validator("weight")
    @classmethod
    def _finite(cls, value: float | None) -> float | None:
        if value is not None and not math.isfinite(value):
            raise ValueError("the weight must be a finite number")
        return value


class StopConfig(HookConfig):
    """A stop of a table."""

    KIND: ClassVar[str] = "stop"

    skip_scoring: bool | None = None
    """Leave a trace that it ends without scores; its reward is 0."""


def _load(value: Any) -> Callable[..., Any]:
    if isinstance(value, str):
        if value.startswith(OBJECT):
            raise ConfigError(
                f"the hook was the Python function {value.removeprefix(OBJECT)!r} of a notebook or a script, which "
                "no file can name; write it into a file and name that, as in 'my_hooks.py:function'"
            )
        found = import_current(value)
        if not callable(found) or isinstance(found, type):
            raise ConfigError(f"{value} is a {type(found).__name__}, not a function")
        function: Callable[..., Any] = found
        return function
    if isinstance(value, type):
        raise ConfigError(f"{value.__name__} is a class, not a function")
    return value  # type: ignore[no-any-return]


def plug(cls: type, config: TaskConfig | None = None) -> Plugged:
    """A task class's hooks with those of a config, which come from their files as they are now.

    A function of the config takes the place of the method with its name, else it comes after the task's own.

    Raises:
        ConfigError: an entry cannot be used; the message has its key.
    """
    merged = {kind: _merge(cls, config, kind) for kind in MARKED}
    scores: dict[str, str] = {}
    for kind in ("metric", "reward"):
        for spec, _ in merged[kind]:
            if spec.name in scores and config is not None and spec.name in getattr(config, TABLES[kind]):
                raise ConfigError(
                    f"task.{TABLES[kind]}.{spec.name}: there is a {scores[spec.name]} of that name; use another one"
                )
            scores[spec.name] = kind
    return merged


def _merge(
    cls: type, config: TaskConfig | None, kind: str
) -> list[tuple[HookSpec, str | Callable[..., Any]]]:
    found: dict[str, tuple[HookSpec, str | Callable[..., Any]]] = {
        name: (spec, name) for name, spec in defined(cls, kind)
    }
    table: Mapping[str, HookConfig] = {}
    if config is not None and kind in TABLES:
        table = getattr(config, TABLES[kind])
    for name, entry in table.items():
        key = f"task.{TABLES[kind]}.{name}"
        own = found.get(name)
        if entry.fn is None:
            if own is None:
                raise ConfigError(f"{key}: {_unknown(cls, kind, name, list(found))}")
            found[name] = replace(own[0], **entry.settings()), own[1]
            continue
        try:
            function = _load(entry.fn)
            spec = plain_spec(function, kind, name)
        except (ConfigError, HookError) as error:
            raise ConfigError(f"{key}.fn: {error}") from error
        if own is not None:
            spec = replace(own[0], on=spec.on, payload=spec.payload)
        found[name] = replace(spec, name=name, **entry.settings()), function
    return sorted(found.values(), key=lambda hook: -hook[0].priority)


def _unknown(cls: type, kind: str, name: str, known: list[str]) -> str:
    match = nearest(name, known)
    hint = f"did you mean {match}? " if match else f"it has {', '.join(known)}; " if known else ""
    return f"{cls.__name__} has no {kind} {name!r}; {hint}a new one needs fn = 'file.py:function'"
