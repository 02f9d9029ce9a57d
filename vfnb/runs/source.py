"""What may stand for a taskset: an object, a class, an id or a list of tasks."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, TypeAlias

from vfnb.errors import ConfigError
from vfnb.tasks import Task, Taskset, load_taskset

__all__ = ["Source", "as_taskset"]

Source: TypeAlias = str | Taskset[Any, Any] | type[Taskset[Any, Any]] | Sequence[Task[Any, Any, Any]]


def as_taskset(source: Source) -> Taskset[Any, Any]:
    """The taskset that is meant.

    Raises:
        ConfigError: it is none of these.
        TasksetError: there is no taskset with that id.
    """
    if isinstance(source, str):
        return load_taskset(source)
    if inspect.isclass(source) and issubclass(source, Taskset):
        return source()
    if isinstance(source, Taskset):
        return source
    if isinstance(source, Sequence) and not isinstance(source, str):
        return Taskset.of(source, name=_called(source))
    raise ConfigError(f"taskset={source!r} is neither a taskset (object, class or id) nor a list of tasks")


def _called(tasks: Sequence[Any]) -> str:
    """A list is called by the class of its tasks, so that lists of other tasks have folders of their own."""
    kinds = {type(task) for task in tasks if isinstance(task, Task)}
    kind = kinds.pop() if len(kinds) == 1 else Task
    return "tasks" if kind is Task else kind.__name__
