"""Marks on user functions, and the checks that a hook can be called at all."""

from __future__ import annotations

import inspect
import math
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, TypeVar, overload

from vfnb.errors import HookError
from vfnb.tasks.stages import STAGES, Scope, scope_of, stage_of
from vfnb.trace.trace import LIMIT_STOPS
from vfnb.utils.config import nearest

__all__ = [
    "LIFECYCLE",
    "MARKED",
    "Hook",
    "HookSpec",
    "check_signature",
    "check_spelling",
    "defined",
    "hooks_of",
    "intercept",
    "metric",
    "parameters",
    "plain_spec",
    "reward",
    "spec_of",
    "stop",
]

F = TypeVar("F", bound=Callable[..., Any])

_SCORING = ("trace", "runtime", "task", "state")
MARKED: dict[str, tuple[str, ...]] = {
    "metric": _SCORING,
    "reward": _SCORING,
    "stop": _SCORING,
    "intercept": _SCORING,
}
"""Kinds of decorated hooks and the parameters each may ask for by name."""
LIFECYCLE: dict[str, tuple[str, ...]] = {
    "setup": ("trace", "runtime", "task", "state"),
    "finalize": ("trace", "runtime", "task", "state"),
    "stage_verifier": ("trace", "runtime", "task", "state"),
    "validate": ("trace", "runtime", "task", "state"),
}
"""Methods that a task may define under these names, and their parameters."""
_ALIKE = 0.8  # how similar a name is to that of a hook which is meant by it

_MARK = "__vfnb_hook__"


@dataclass(frozen=True)
class HookSpec:
    """What a decorator says about a function."""

    kind: str
    name: str
    weight: float = 1.0
    priority: float = 0
    on: str = ""
    """Stage of a stop or an intercept: `request`, `response`, `trace` or `tool`."""
    payload: str = ""
    """Name of the parameter that gets what the stage is about."""
    skip_scoring: bool = False


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


@overload
def stop(function: F, /) -> F: ...
@overload
def stop(*, on: str | None = None, skip_scoring: bool = False, priority: float = 0) -> Callable[[F], F]: ...
def stop(
    function: Any = None, /, *, on: str | None = None, skip_scoring: bool = False, priority: float = 0
) -> Any:
    """Mark a check that ends the agent's run when it returns True; its name becomes `trace.stop_condition`.

    It may be sync or async. The annotation of a parameter says when it runs: `vf.Request` before a request goes to
    the model, `vf.Response` before an answer goes to the harness, `vf.Trace` before each model call. It may also
    take `trace`, `runtime`, `task` (the TaskData) and `state` by name.

    Args:
        on: the stage outright: `"request"`, `"response"` or `"trace"`.
        skip_scoring: a trace that it ends has no metrics, rewards and judges; its reward is 0.0.
        priority: higher is asked first; equal ones in the order of definition.

    Raises:
        HookError: the stage cannot be told, or a parameter has another name; raised at the definition.
    """
    return _decorate("stop", function, on=on, skip_scoring=skip_scoring, priority=priority)


@overload
def intercept(function: F, /) -> F: ...
@overload
def intercept(*, on: str | None = None, priority: float = 0) -> Callable[[F], F]: ...
def intercept(function: Any = None, /, *, on: str | None = None, priority: float = 0) -> Any:
    """Mark a function that may change what passes between harness and model. It returns None to change nothing.

    Of a `vf.Request` it may return a copy with other contents in the new user and tool messages; of a
    `vf.Response` one with another text; of a `vf.ToolCall` a `vf.ToolMessage` (or its text) in place of running the
    tool, in harnesses with `SUPPORTS_TOOL_INTERCEPTION`. Other parameters, and the stage, as for `stop`.

    Args:
        on: the stage outright: `"request"`, `"response"` or `"tool"`.
        priority: higher runs first and the others see what it made.

    Raises:
        HookError: the stage cannot be told, or a parameter has another name; raised at the definition.
    """
    return _decorate("intercept", function, on=on, priority=priority)


def _decorate(kind: str, function: Any, *, on: Any = None, **settings: Any) -> Any:
    scope = scope_of(3) if kind in STAGES else {}

    def mark(target: Any) -> Any:
        plain = getattr(target, "__func__", target)  # under a static or class method
        if not callable(plain) or isinstance(plain, type):
            hint = (
                f"; write @{kind}(weight={target!r})"
                if kind == "reward" and isinstance(target, int | float)
                else ""
            )
            raise HookError(f"@{kind} is for functions, got {target!r}{hint}")
        inside = _in_class_body(plain)
        spec = HookSpec(kind, getattr(plain, "__name__", kind), **settings)
        spec = _staged(spec, plain, on, scope)
        if kind == "stop" and spec.name in LIMIT_STOPS:
            raise HookError(f"{_label(plain, kind, '')}: its name is that of a limit; give it another one")
        setattr(plain, _MARK, spec)
        if not inside:
            check_signature(plain, kind, parameters(spec), method=False)
        return target

    return mark if function is None else mark(function)


def _staged(spec: HookSpec, function: Any, on: str | None, scope: Scope) -> HookSpec:
    """The spec with its stage, if it has one."""
    if spec.kind not in STAGES:
        return spec
    try:
        stage, payload = stage_of(function, spec.kind, on, scope)
    except ValueError as error:
        raise HookError(f"{_label(function, spec.kind, '')}: {error}") from None
    return replace(spec, on=stage, payload=payload)


def parameters(spec: HookSpec) -> tuple[str, ...]:
    """The parameters that a hook may ask for by name."""
    names = MARKED[spec.kind]
    return (spec.payload, *names) if spec.payload and spec.payload not in names else names


def plain_spec(function: Callable[..., Any], kind: str, name: str | None = None) -> HookSpec:
    """What a function outside any class is as a hook of a kind: what its decorator says, else the defaults.

    Raises:
        HookError: it is decorated as another kind, takes a wrong parameter, or its stage cannot be told.
    """
    found = spec_of(function)
    if found is None:
        spec = HookSpec(kind, name or str(getattr(function, "__name__", kind)))
        spec = _staged(spec, function, None, {})
    else:
        spec = replace(found, name=name or found.name)
    if spec.kind != kind:
        raise HookError(f"{spec.name} is a {spec.kind}, but a {kind} is wanted; decorate it with @{kind}")
    if kind == "stop" and spec.name in LIMIT_STOPS:
        raise HookError(
            f"a stop cannot be called {spec.name!r}, which is the name of a limit; give it another name"
        )
    check_signature(function, kind, parameters(spec), method=False)
    return spec


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
    return sorted(defined(cls, kind), key=lambda hook: -hook[1].priority)


def defined(cls: type, kind: str) -> list[tuple[str, HookSpec]]:
    """The same in the order of definition."""
    known = _marked.get(cls)
    if known is None:
        names = {name: None for level in reversed(cls.__mro__) for name in vars(level)}
        found = [(name, spec_of(inspect.getattr_static(cls, name))) for name in names]
        known = _marked[cls] = [(name, spec) for name, spec in found if spec is not None]
    return [(name, spec) for name, spec in known if spec.kind == kind]


_marked: weakref.WeakKeyDictionary[type, list[tuple[str, HookSpec]]] = weakref.WeakKeyDictionary()


def check_signature(
    function: Any, kind: str, allowed: tuple[str, ...], *, method: bool, owner: str = ""
) -> None:
    """Refuse a hook that could not be called by parameter names.

    Raises:
        HookError: names class, method, file and line, the wrong parameter and the nearest right one.
    """
    taken = list(inspect.signature(function).parameters.values())
    if method:
        if not taken:
            raise HookError(f"{_label(function, kind, owner)}: add `self` as its first parameter")
        if taken[0].name in allowed:  # Python would hand the object over under this name
            raise HookError(
                f"{_label(function, kind, owner)}: `self` is missing before `{taken[0].name}`; "
                "a method takes its object first"
            )
        taken = taken[1:]
    for parameter in taken:
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


def check_spelling(cls: type, names: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse a public method that looks like one that is called by its name, and would never be called.

    Args:
        names: the methods that are called, each with the parameters that it takes.

    Raises:
        HookError: names the method and the right name.
    """
    for name, value in vars(cls).items():
        if name.startswith("_") or name in names or not isinstance(value, FunctionType) or spec_of(value):
            continue
        meant = nearest(name, names, _ALIKE)
        taken = list(inspect.signature(value).parameters)[1:] if meant is not None else []
        if meant is None or any(hasattr(base, name) for base in cls.__bases__):
            continue
        if inspect.iscoroutinefunction(value) or (taken and set(taken) <= set(names[meant])):
            raise HookError(
                f"{_label(value, 'method', cls.__name__)} is never called: did you mean `{meant}`? "
                f"If it is a helper, call it `_{name}`"
            )


def _label(function: Any, kind: str, owner: str) -> str:
    plain = inspect.unwrap(getattr(function, "__func__", function))
    name = getattr(plain, "__name__", repr(plain))
    place = ""
    if isinstance(plain, FunctionType):
        place = f" ({plain.__code__.co_filename}:{plain.__code__.co_firstlineno})"
    return f"{kind} {owner + '.' if owner else ''}{name}{place}"
