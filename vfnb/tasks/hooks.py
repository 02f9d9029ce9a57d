"""Marks on user functions, and the checks that a hook can be called at all."""

from __future__ import annotations

import inspect
import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, TypeVar, overload

from vfnb.errors import HookError
from vfnb.utils.config import nearest

__all__ = [
    "LIFECYCLE",
    "MARKED",
    "Hook",
    "HookSpec",
    "check_signature",
    "hooks_of",
    "metric",
    "reward",
    "spec_of",
]

F = TypeVar("F", bound=Callable[..., Any])

_SCORING = ("trace", "runtime", "task", "state")
MARKED: dict[str, tuple[str, ...]] = {"metric": _SCORING, "reward": _SCORING}
"""Kinds of decorated hooks and the parameters each may ask for by name."""
LIFECYCLE: dict[str, tuple[str, ...]] = {
    "setup": ("trace", "runtime", "task", "state"),
    "finalize": ("trace", "runtime", "task", "state"),
    "validate": ("runtime", "task"),
}
"""Methods that a task may define under these names, and their parameters."""

_MARK = "__vfnb_hook__"


@dataclass(frozen=True)
class HookSpec:
    """What a decorator says about a function."""

    kind: str
    name: str
    weight: float = 1.0
    priority: float = 0


@dataclass(frozen=True)
class Hook:
    """A function to call and what its decorator says; bound to its task if it is a method."""

    spec: HookSpec
    function: Callable[..., Any]


@overload
def reward(function: F, /) -> F: ...
@overload
def reward(*, weight: float = 1.0, priority: float = 0) -> Callable[[F], F]: ...
def reward(function: Any = None, /, *, weight: float = 1.0, priority: float = 0) -> Any:
    """Mark a scoring function: its number times `weight` goes into `trace.reward`.

    It may be sync or async, takes `trace`, `runtime`, `task` (the TaskData) and `state` by name, and returns a
    number or a dict of named numbers. Works on methods of a Task and on plain functions.

    Args:
        weight: factor in the sum; with 0 the value is computed and recorded only.
        priority: higher runs first; equal ones in the order of definition.

    Raises:
        HookError: a parameter has another name; raised at the definition.
    """
    if not isinstance(weight, int | float) or not math.isfinite(weight):
        raise HookError(f"@reward(weight={weight!r}): the weight must be a finite number")
    return _decorate("reward", function, weight=float(weight), priority=priority)


@overload
def metric(function: F, /) -> F: ...
@overload
def metric(*, priority: float = 0) -> Callable[[F], F]: ...
def metric(function: Any = None, /, *, priority: float = 0) -> Any:
    """Mark a measurement that is recorded and does not touch the reward. Parameters as for `reward`."""
    return _decorate("metric", function, priority=priority)


def _decorate(kind: str, function: Any, **settings: Any) -> Any:
    def mark(target: Any) -> Any:
        plain = getattr(target, "__func__", target)  # under a static or class method
        if not callable(plain) or isinstance(plain, type):
            raise HookError(f"@{kind} is for functions, got {target!r}")
        setattr(plain, _MARK, HookSpec(kind, getattr(plain, "__name__", kind), **settings))
        if not _in_class_body(plain):
            check_signature(plain, kind, MARKED[kind], method=False)
        return target

    return mark if function is None else mark(function)


def _in_class_body(function: Any) -> bool:
    place = getattr(function, "__qualname__", "").rpartition(".")[0]
    return bool(place) and not place.endswith("<locals>")


def spec_of(function: Any) -> HookSpec | None:
    """What the decorator of a function says, None if it has none."""
    plain = getattr(function, "__func__", function)
    spec = getattr(plain, _MARK, None)
    return spec if isinstance(spec, HookSpec) else None


def hooks_of(cls: type, kind: str) -> list[tuple[str, HookSpec]]:
    """Attribute names and specs of a class's hooks of one kind, in the order in which they run.

    Base classes come first; an overriding method keeps the place of the one it replaces.
    """
    known = _found.setdefault(cls, {})
    if kind not in known:
        known[kind] = _search(cls, kind)
    return known[kind]


_found: weakref.WeakKeyDictionary[type, dict[str, list[tuple[str, HookSpec]]]] = weakref.WeakKeyDictionary()


def _search(cls: type, kind: str) -> list[tuple[str, HookSpec]]:
    names = {name: None for level in reversed(cls.__mro__) for name in vars(level)}
    found = [(name, spec_of(inspect.getattr_static(cls, name))) for name in names]
    hooks = [(name, spec) for name, spec in found if spec is not None and spec.kind == kind]
    return sorted(hooks, key=lambda hook: -hook[1].priority)


def check_signature(
    function: Any, kind: str, allowed: tuple[str, ...], *, method: bool, owner: str = ""
) -> None:
    """Refuse a hook that could not be called by parameter names.

    Raises:
        HookError: names class, method, file and line, the wrong parameter and the nearest right one.
    """
    parameters = list(inspect.signature(function).parameters.values())
    if method:
        if not parameters:
            raise HookError(f"{_label(function, kind, owner)}: add `self` as its first parameter")
        parameters = parameters[1:]
    for parameter in parameters:
        problem = _problem(parameter, allowed)
        if problem:
            raise HookError(f"{_label(function, kind, owner)}: {problem}")


def _problem(parameter: inspect.Parameter, allowed: tuple[str, ...]) -> str | None:
    known = f"a hook of this kind may take {', '.join(allowed)}"
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return f"`{parameter}` is not possible, hooks are called by parameter name; {known}"
    if parameter.kind is parameter.POSITIONAL_ONLY:
        return f"`{name}` is positional-only, but hooks are called by parameter name; remove the `/`"
    if name in allowed:
        return None
    has_default = parameter.default is not parameter.empty
    match = nearest(name, allowed, 0.8 if has_default else 0.6)
    if has_default and match is None:
        return None  # a setting of its own
    return f"unknown parameter `{name}`; " + (f"did you mean `{match}`? ({known})" if match else known)


def _label(function: Any, kind: str, owner: str) -> str:
    plain = inspect.unwrap(getattr(function, "__func__", function))
    name = getattr(plain, "__name__", repr(plain))
    place = ""
    if isinstance(plain, FunctionType):
        place = f" ({plain.__code__.co_filename}:{plain.__code__.co_firstlineno})"
    return f"{kind} {owner + '.' if owner else ''}{name}{place}"
