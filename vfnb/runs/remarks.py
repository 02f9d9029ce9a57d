"""What is odd about the tasks of a run, though it can run: told in its display before anybody reads the numbers."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from vfnb.tasks import Task, Toolset
from vfnb.tasks.tools import own_tools, shared_tools, tool_methods

__all__ = ["remarks"]

_COPY = re.compile(r"([0-9a-f]{12})-\d+")


def remarks(tasks: Sequence[Task[Any, Any, Any]]) -> list[str]:
    """Tasks that repeat each other, tasks without rewards, tools that the model knows too little of."""
    kinds = {type(task): task for task in tasks}
    found = list(_repeated(tasks))
    if not any(task.hooks(kind) for task in tasks for kind in ("reward", "judge", "metric")):
        names = ", ".join(kind.__name__ for kind in kinds)
        found.append(
            f"{names} has no rewards: mark methods with @vf.reward, or add some with run.rescore(...) afterwards"
        )
    return [*found, *dict.fromkeys(line for task in kinds.values() for line in _tools(task))]


def _repeated(tasks: Sequence[Task[Any, Any, Any]]) -> Iterator[str]:
    keys = {str(task.key) for task in tasks}
    copies = [key for key in keys if (same := _COPY.fullmatch(key)) and same[1] in keys]
    if copies:
        yield (
            f"{len(copies)} of {len(tasks)} tasks repeat the contents of another one (such as {min(copies)}): each "
            "counts as a task of its own, and intervals come out too narrow; rollouts= samples a task several times"
        )
    called = Counter(task.data.name for task in tasks if task.data.name)
    double = [f"{name!r}" for name, times in called.items() if times > 1]
    if double:
        yield f"several tasks have one name ({', '.join(double[:3])}): tables and figures show them alike"


def _tools(task: Task[Any, Any, Any]) -> Iterator[str]:
    for item in [*shared_tools(task), *own_tools(task)]:
        if not isinstance(item, Toolset):
            continue
        kind = type(item)
        for attribute, spec in tool_methods(kind).items():
            method = inspect.getattr_static(kind, attribute)
            function = getattr(method, "__func__", method)
            if not (spec.description or function.__doc__):
                yield f"tool {kind.__name__}.{attribute} has no docstring: the model is told nothing but its name"
            bare = [
                one.name
                for one in list(inspect.signature(function).parameters.values())
                if one.annotation is one.empty and one.name not in ("self", "cls")
            ]
            if bare:
                yield (
                    f"tool {kind.__name__}.{attribute}: {', '.join(bare)} without annotation, so the model is told "
                    "no type"
                )
