"""From layers of settings to a checked config: classes by their names, then types, then pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import Field, ValidationError, create_model

from vfnb.agents.base import HarnessConfig
from vfnb.agents.loading import find_harness
from vfnb.errors import ConfigError, VfnbError
from vfnb.runs.layers import Layer, Layers
from vfnb.runs.layouts import AGENT, in_layout
from vfnb.runs.tree import EvalConfig
from vfnb.runtimes.config import runtime_config
from vfnb.tasks import taskset_class, tasksets
from vfnb.utils.config import OBJECT, all_keys, nearest, problem_text

__all__ = ["merge", "resolve", "tree_type"]

T = TypeVar("T")

_DEFAULT = Layer(data={"harness": {"id": "null"}})


def resolve(layers: Sequence[Layer]) -> EvalConfig:
    """The config that layers give, with everything checked that needs no task and no model.

    Raises:
        ConfigError: with the key as the user wrote it, and the fix.
        TasksetError: the taskset cannot be found, or its selection cannot work.
    """
    merged = merge(layers)
    _check_nesting(merged)
    tree = tree_type(merged)
    try:
        config = tree.model_validate(merged.tree())
    except ValidationError as error:
        raise ConfigError(problem_text(tree, error, speller=merged)) from None
    _check(config, merged)
    return config


def merge(layers: Sequence[Layer]) -> Layers:
    """Layers over the default harness."""
    return Layers.of([_DEFAULT, *layers])


def _check_nesting(merged: Layers) -> None:
    """Refuse keys of the nested layout that stand for nothing."""
    for keys in merged.values:
        if keys in (("env",), ("env", "agent")):
            raise ConfigError(f"{merged.where(keys)}: expected a table, got {merged.get(*keys)!r}")
        if keys[0] == "env":
            table, known = (keys[:2], AGENT) if keys[1:2] == ("agent",) else (keys[:1], ("taskset", "agent"))
            wrong = keys[: len(table) + 1]
            places = [key for key in all_keys(EvalConfig) if key.rpartition(".")[2] == wrong[-1]]
            match = in_layout(places[0], keys) if places else nearest(wrong[-1], known)
            hint = f"did you mean {match}?" if match else f"known keys: {', '.join(known)}"
            raise ConfigError(f"{merged.where(wrong)}: unknown key; {hint}")


def tree_type(merged: Layers) -> type[EvalConfig]:
    """`EvalConfig` with the types that the named taskset, harness and runtime have.

    Raises:
        ConfigError: there is no harness or runtime with that name.
        TasksetError: there is no such taskset.
    """
    taskset = _load(merged, "taskset", taskset_class)
    harness = _load(merged, "harness", find_harness)
    kind = merged.get("runtime", "type")
    default = (harness.RUNTIMES or ("inprocess",))[0]
    with _at(merged, "runtime", "type"):
        runtime = runtime_config(kind if isinstance(kind, str) else default)
    settings = harness.config_type() if isinstance(harness, type) else HarnessConfig
    types: dict[str, tuple[type, Any]] = {
        "taskset": (taskset.config_type(), ...),
        "harness": (settings, ...),
        "runtime": (type(runtime), runtime),
    }
    tree = create_model(
        "EvalConfig",
        __base__=EvalConfig,
        __module__=__name__,
        **{  # type: ignore[call-overload]
            key: (kind, Field(value, description=EvalConfig.model_fields[key].description))
            for key, (kind, value) in types.items()
        },
    )
    tree.taskset_type, tree.harness_type = taskset, harness
    found: type[EvalConfig] = tree
    return found


def _load(merged: Layers, table: str, find: Callable[[str], T]) -> T:
    name = merged.get(table, "id")
    if merged.get(table) is not None:  # neither a name nor a table
        raise ConfigError(f"{merged.where((table,))}: expected a name or a table, got {merged.get(table)!r}")
    if name is None:
        raise ConfigError(
            'taskset.id: required; name one, as in `vfnb eval NAME` or [taskset] id = "NAME"; '
            f"published: {', '.join(tasksets()) or 'none'}"
        )
    where = merged.where((table, "id"))
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{where}: expected a name, got {name!r}")
    if name.startswith(OBJECT):
        raise ConfigError(
            f"{where}: the {table} was the Python object {name.removeprefix(OBJECT)!r} of a notebook or a script, "
            f"which no file can name; put it into a module and write {table}.id = 'module:NAME', or run it from "
            "Python with vf.evaluate"
        )
    with _at(merged, table, "id"):
        try:
            return find(name)
        except (VfnbError, KeyboardInterrupt):
            raise
        except Exception as error:
            raise ConfigError(f"{name} cannot be loaded: {type(error).__name__}: {error}") from error


def _check(config: EvalConfig, merged: Layers) -> None:
    """Refuse pairs that cannot work.

    Raises:
        ConfigError: the selection, the harness's settings, or harness and runtime together.
        TasksetError: an infinite taskset without a bound.
    """
    with _at(merged, "select", *(["shuffle"] if config.select.shuffle else [])):
        taskset = config.make_taskset()
        if not taskset.bounded:
            raise ConfigError(
                f"{taskset.name} is infinite; bound it with -n N (select.limit) or closed ranges in include.idx"
            )
    with _at(merged, "harness"):
        harness = config.make_harness()
    with _at(merged, "harness" if merged.get("runtime", "type") is None else "runtime"):
        harness.check(config.runtime)


@contextmanager
def _at(merged: Layers, *keys: str) -> Iterator[None]:
    """Put the key into the message of an error of ours."""
    try:
        yield
    except VfnbError as error:
        raise type(error)(f"{merged.where(keys)}: {error}") from error.__cause__
