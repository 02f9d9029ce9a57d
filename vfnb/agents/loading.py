"""Harnesses by name, object, function, class or import path."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from vfnb.agents.base import Harness
from vfnb.agents.function import harness
from vfnb.errors import ConfigError
from vfnb.utils.imports import import_object

__all__ = ["find_harness", "harness_names", "resolve_harness"]

GROUP = "vfnb.harnesses"


def harness_names() -> list[str]:
    """The registered names, sorted."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def resolve_harness(what: str | Harness[Any] | type[Harness[Any]] | Callable[..., Any]) -> Harness[Any]:
    """The harness that `what` means.

    Args:
        what: a registered name, `module:Class`, `file.py:Class`, an object, a class, or a function.

    Raises:
        ConfigError: there is no such harness; the message has the nearest name.
    """
    if isinstance(what, Harness):
        return what
    if isinstance(what, str):
        return resolve_harness(find_harness(what))
    if inspect.isclass(what) and issubclass(what, Harness):
        if inspect.isabstract(what):
            raise ConfigError(f"harness {what.__name__} has no run(session, task); define it")
        return what()
    if callable(what) and not inspect.isclass(what):
        return harness(what)
    hint = "; settings go into the config of a Harness object" if isinstance(what, Mapping) else ""
    raise ConfigError(
        f"harness={what!r} is neither a name, a Harness nor an async function of (session, task){hint}"
    )


def find_harness(name: str) -> type[Harness[Any]] | Harness[Any]:
    """What a name means, not made yet: a class, or the ready object that a module holds.

    Raises:
        ConfigError: there is no such harness, or the name means something else.
    """
    found = _by_name(name)
    if isinstance(found, Harness) or (inspect.isclass(found) and issubclass(found, Harness)):
        return found
    if callable(found) and not inspect.isclass(found):
        return harness(found)
    raise ConfigError(f"harness {name!r} is {found!r}; it must be a Harness or a function of (session, task)")


def _by_name(name: str) -> Any:
    for point in entry_points(group=GROUP):
        if point.name == name:
            return point.load()
    if ":" in name or "." in name:
        return import_object(name)
    names = harness_names()
    near = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
    raise ConfigError(f"no harness {name!r}; {hint}")
