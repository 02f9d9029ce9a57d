"""When a stop or an intercept runs: at the request, at the response, at the trace, or before a tool call.

The stage is read from the annotations when the function is defined, where local names can still be looked up;
`on=` names it outright.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any, get_args

from vfnb.trace import Trace
from vfnb.types import Request, Response, ToolCall

__all__ = ["STAGES", "Scope", "scope_of", "stage_of"]

STAGES = {
    "stop": ("request", "response", "trace"),
    "intercept": ("request", "response", "tool"),
}
"""The stages that each kind of hook may have."""
_TYPES = {"request": Request, "response": Response, "trace": Trace, "tool": ToolCall}
_NAMES = {kind.__name__: stage for stage, kind in _TYPES.items()}
_BY_NAME = {
    "request": "request",
    "response": "response",
    "trace": "trace",
    "call": "tool",
    "tool_call": "tool",
}
_COMMON = ("self", "cls", "trace", "runtime", "task", "state")
_LAST_NAME = re.compile(r"(\w+)\W*$")

Scope = Mapping[str, Any]


def scope_of(depth: int) -> Scope:
    """The local names around a decorator's caller: those of its class body and of the functions around it.

    Args:
        depth: frames between this function and that caller.
    """
    frame: FrameType | None = sys._getframe(depth)
    found: dict[str, Any] = {}
    file = frame.f_code.co_filename if frame is not None else ""
    while frame is not None and frame.f_code.co_filename == file:
        found = {**frame.f_locals, **found}
        frame = frame.f_back
    return found


def stage_of(function: Any, kind: str, on: str | None, scope: Scope) -> tuple[str, str]:
    """The stage of a function, and the name of the parameter that gets the request, response, trace or tool call.

    Raises:
        ValueError: it cannot be told, there are two, or the kind of hook has no such stage.
    """
    allowed = STAGES[kind]
    if on is not None and on not in allowed:
        raise ValueError(f"on={on!r} is none of {_listed(allowed)}")
    parameters = list(inspect.signature(function).parameters.values())
    found: dict[str, str] = {}
    for parameter in parameters:
        stage = _stage(parameter, function, scope)
        if stage is not None:
            found.setdefault(stage, parameter.name)
    stages = [stage for stage in found if stage != "trace"]
    if len(stages) > 1 and on is None:
        raise ValueError(
            f"it takes both vf.{_TYPES[stages[0]].__name__} and vf.{_TYPES[stages[1]].__name__}; take one of them"
        )
    told = stages[0] if stages else "trace" if "trace" in found else None
    if on is not None:
        if stages and on not in stages and on != "trace":
            raise ValueError(f"on={on!r}, but it takes a vf.{_TYPES[stages[0]].__name__}")
        return on, found[on] if on in found else _sole(parameters)
    if told is None or told not in allowed:
        types = ", ".join(f"vf.{_TYPES[stage].__name__}" for stage in allowed)
        raise ValueError(
            f"cannot tell when it runs; annotate one parameter with one of {types}, or write "
            f"@vf.{kind}(on={allowed[0]!r}) (or {_listed(allowed[1:])})"
        )
    return told, found[told]


def _sole(parameters: list[inspect.Parameter]) -> str:
    """The one parameter that nothing else explains."""
    rest = [one.name for one in parameters if one.default is one.empty and one.name not in _COMMON]
    return rest[0] if len(rest) == 1 else ""


def _stage(parameter: inspect.Parameter, function: Any, scope: Scope) -> str | None:
    note = parameter.annotation
    if note is parameter.empty:
        return _BY_NAME.get(parameter.name)
    if not isinstance(note, str):
        return _of_type(note)
    names = {**getattr(function, "__globals__", {}), **_closure(function), **scope}
    try:
        return _of_type(eval(note, names))
    except Exception:  # a name that only a type checker sees: go by how it is spelled
        match = _LAST_NAME.search(note.partition("|")[0].strip())
        spelled = _NAMES.get(match[1]) if match is not None else None
        return spelled or _BY_NAME.get(parameter.name)


def _of_type(note: Any) -> str | None:
    if isinstance(note, str):
        return _NAMES.get(note.rpartition(".")[2])
    for stage, kind in _TYPES.items():
        if note is kind or kind in get_args(note) or (isinstance(note, type) and issubclass(note, kind)):
            return stage
    return None


def _closure(function: Any) -> dict[str, Any]:
    try:
        return dict(inspect.getclosurevars(function).nonlocals)
    except (TypeError, ValueError):
        return {}


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))
