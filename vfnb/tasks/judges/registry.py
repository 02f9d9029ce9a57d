"""Judges by name: the built-in ones, those of packages, and those defined in this process."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from vfnb.errors import ConfigError
from vfnb.utils.config import nearest
from vfnb.utils.imports import import_object

if TYPE_CHECKING:
    from vfnb.tasks.judges.base import Judge

__all__ = ["judge_class", "judges", "register"]

GROUP = "vfnb.judges"
"""Entry-point group in which packages publish judges."""
_BUILT_IN = {
    "reference": "vfnb.tasks.judges.reference:ReferenceJudge",
    "rubric": "vfnb.tasks.judges.rubric:RubricJudge",
    "decision": "vfnb.tasks.judges.decision:DecisionJudge",
}
_defined: dict[str, type[Judge[Any, Any]]] = {}


def register(cls: type[Judge[Any, Any]]) -> None:
    """Make a class known under the `id` that its config class has; a later one replaces an earlier one.

    Raises:
        ConfigError: the id is that of a built-in judge.
    """
    name = _own_id(cls)
    if not name or name in {_own_id(base) for base in cls.__mro__[1:] if hasattr(base, "config_type")}:
        return
    if name in _BUILT_IN:
        if _BUILT_IN[name] != f"{cls.__module__}:{cls.__qualname__}":
            raise ConfigError(
                f"class {cls.__name__}: the id {name!r} is that of a built-in judge; take another one"
            )
        return
    _defined[name] = cls


def _own_id(cls: Any) -> str:
    field = cls.config_type().model_fields.get("id")
    return field.default if field is not None and isinstance(field.default, str) else ""


def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def judges() -> list[str]:
    """The names of all judges that a config may use."""
    return sorted({*_BUILT_IN, *_defined, *_entries()})


def judge_class(id: str) -> type[Judge[Any, Any]]:
    """The class that an id means.

    Args:
        id: a name of `judges()`, `package.module:Class` or `file.py:Class`.

    Raises:
        ConfigError: there is no such judge; the message has the nearest name.
    """
    from vfnb.tasks.judges.base import Judge, plugged_problem

    if id in _BUILT_IN:
        found = import_object(_BUILT_IN[id])
    elif id in _defined:
        found = _defined[id]
    elif id in (entries := _entries()):
        found = entries[id].load()
    elif ":" in id:
        found = import_object(id)
    else:
        match = nearest(id, judges())
        hint = f"did you mean {match!r}?" if match else f"known: {', '.join(judges())}"
        raise ConfigError(f"no judge {id!r}: {hint} A judge of a file is named 'file.py:Class'")
    if not (isinstance(found, type) and issubclass(found, Judge)):
        raise ConfigError(f"judge {id!r} is {found!r}; it must be a subclass of vf.Judge")
    problem = plugged_problem(found)
    if problem is not None:
        raise ConfigError(f"judge {id!r}: {problem}")
    return found
