"""Finding a taskset class by name: entry point, module, `module:Class` or file."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from vfnb.errors import TasksetError
from vfnb.tasks.taskset import Taskset, TasksetConfig
from vfnb.utils.config import build, nearest
from vfnb.utils.imports import load_file

__all__ = ["load_taskset", "taskset_class", "tasksets"]

GROUP = "vfnb.tasksets"
"""Entry-point group in which packages publish tasksets."""


def tasksets() -> list[str]:
    """Names of all published tasksets."""
    return sorted(_entries())


def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def load_taskset(
    id: str, config: TasksetConfig | Mapping[str, Any] | None = None, **overrides: Any
) -> Taskset[Any, Any]:
    """Find a taskset class and make it with a config.

    Args:
        id: entry point (`addition`, also as `owner/addition`), module (`my_pkg`), `module:Class`, or file (`my.py`,
            `my.py:Class`).
        config: its settings.
        overrides: single settings.

    Raises:
        TasksetError: no such taskset; the message has the nearest name.
        ConfigError: an unknown or wrong setting.
    """
    cls = taskset_class(id)
    checked = build(cls.config_type(), config, path="taskset")
    return cls(checked.updated(id=id, **overrides))


def taskset_class(id: str) -> type[Taskset[Any, Any]]:
    """The class that an id names; arguments and errors as for `load_taskset`."""
    place, _, name = id.partition(":")
    if place.endswith(".py"):
        return _in_module(_from_file(Path(place).expanduser()), name, id)
    entries = _entries()
    if not name and id in entries:
        found = entries[id].load()
        return _in_module(found, "", id) if isinstance(found, ModuleType) else _checked(found, id)
    for module in dict.fromkeys((place, place.replace("-", "_"))):
        if all(part.isidentifier() for part in module.split(".")) and _exists(module):
            return _in_module(importlib.import_module(module), name, id)
    if "/" in place:
        return _of_hub(place)
    match = nearest(id, entries)
    hint = f"did you mean {match!r}?" if match else f"published: {', '.join(sorted(entries)) or 'none'}"
    raise TasksetError(
        f"no taskset {id!r}: not published, not a module, not a file; {hint} "
        "(a class of a notebook is passed itself, without quotes)"
    )


def _of_hub(id: str) -> type[Taskset[Any, Any]]:
    """`owner/name` is the installed taskset `name`: nothing is fetched from anywhere."""
    local = id.rpartition("/")[2]
    if "@" in local:
        raise TasksetError(
            f"taskset {id!r}: a version cannot be asked for; install it and write {local.partition('@')[0]!r}"
        )
    try:
        return taskset_class(local)
    except TasksetError as error:
        raise TasksetError(
            f"{error} (asked for as {id!r}: nothing is fetched from a hub, install its package)"
        ) from None


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):
        return False


def _from_file(path: Path) -> ModuleType:
    """Execute a file as a module of its own, anew each time, so that edits are seen."""
    full = path.resolve()
    if not full.is_file():
        raise TasksetError(f"no taskset file {path} (looked at {full})")
    return load_file(full)


def _in_module(module: ModuleType, name: str, id: str) -> type[Taskset[Any, Any]]:
    """The class of that name, else the one in `__all__`, else the only one that the module defines."""
    if name:
        if not hasattr(module, name):
            match = nearest(name, [key for key, value in vars(module).items() if _is_taskset(value)])
            hint = f"; did you mean {match}?" if match else ""
            raise TasksetError(f"taskset {id!r}: {module.__name__} has no {name}{hint}")
        return _checked(getattr(module, name), id)
    exported = getattr(module, "__all__", None)
    if exported is not None:
        found = {key: getattr(module, key, None) for key in exported}
        place = f"__all__ of {module.__name__}"
    else:
        found = {key: value for key, value in vars(module).items() if _defines(module, value)}
        place = module.__name__
    classes = {key: value for key, value in found.items() if _is_taskset(value)}
    if len(classes) == 1:
        return _checked(next(iter(classes.values())), id)
    if not classes:
        raise TasksetError(f"taskset {id!r}: {place} has no Taskset class; export one in __all__")
    first = next(iter(classes))
    raise TasksetError(f"taskset {id!r}: {place} has {', '.join(classes)}; name one, as in '{id}:{first}'")


def _defines(module: ModuleType, value: Any) -> bool:
    return _is_taskset(value) and value.__module__ == module.__name__


def _is_taskset(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Taskset) and value is not Taskset


def _checked(value: Any, id: str) -> type[Taskset[Any, Any]]:
    if not _is_taskset(value):
        raise TasksetError(f"taskset {id!r} is {value!r}; it must be a subclass of vf.Taskset")
    cls: type[Taskset[Any, Any]] = value
    return cls
