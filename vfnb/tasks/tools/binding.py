"""Which rollout a tool call belongs to, and the state that they share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic_core import PydanticSerializationError, to_json

from vfnb.errors import HookError, StateConflict, ToolError
from vfnb.tasks.state import State

__all__ = ["Binding", "bound", "changes", "current_state", "merge", "snapshot"]


class HasState(Protocol):
    """A trace, or what stands for one in another process."""

    state: Any


@dataclass(slots=True)
class Binding:
    """One rollout, as its tools need it. Lives on the loop of hooks."""

    holder: HasState
    task: Any = None
    """The rollout's TaskData."""
    log: Callable[[str], object] | None = None
    """Takes what tools print."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by a call of a toolset with a state of its own: such calls of one rollout run one after another."""


class _Call:
    """One call's right to the state; it ends with the call."""

    __slots__ = ("binding", "over")

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        self.over = False


_current: ContextVar[_Call | None] = ContextVar("vfnb_tool_call", default=None)


@contextmanager
def bound(binding: Binding | None) -> Iterator[None]:
    """Bind `self.state` of the code inside, and of the threads and tasks that it starts, to a rollout.

    Afterwards the state is closed to them: a thread left behind by its deadline cannot change it any more.
    """
    call = None if binding is None else _Call(binding)
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)
        if call is not None:
            call.over = True


def current_state(owner: str) -> Any:
    """The state of the rollout whose call runs here.

    Raises:
        HookError: no call runs here.
        ToolError: the call is over.
    """
    call = _current.get()
    if call is None:
        raise HookError(
            f"{owner}.state is only there during a tool call or setup_task: a shared toolset has no rollout in "
            "setup(); keep what all rollouts share on self"
        )
    if call.over:
        raise ToolError(f"{owner}.state: this call ran over its deadline, its changes are refused")
    return call.binding.holder.state


def snapshot(state: State) -> dict[str, Any]:
    """The fields by name, as JSON values: what crosses a process boundary.

    Raises:
        HookError: a field has no JSON form.
    """
    try:
        return state.model_dump(mode="json")
    except PydanticSerializationError as error:
        raise HookError(
            f"{type(state).__name__} cannot go to a tool server in another process: {error}; give its fields JSON "
            "types, or run the toolset in this process"
        ) from error


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that differ, with their new values."""
    return {name: value for name, value in after.items() if name not in before or before[name] != value}


def merge(state: State, before: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
    """Apply the changes that another process made to a snapshot: all of them, or none.

    Args:
        state: the rollout's own.
        before: the snapshot that the other process started from.
        changed: fields with their new values, as JSON values.

    Raises:
        StateConflict: a field was changed here meanwhile, to another value.
    """
    now = snapshot(state)
    clashes = [
        name
        for name, value in changed.items()
        if now.get(name) != before.get(name) and now.get(name) != value
    ]
    if clashes:
        raise StateConflict(
            f"state field{'s' if len(clashes) > 1 else ''} {', '.join(clashes)}: changed by a tool in another "
            "process and here at the same time; let one of them write the field"
        )
    # From JSON, as it came: in JSON mode dates, bytes and tuples are read back as what they were.
    checked = type(state).model_validate_json(to_json({**now, **changed}))
    for name in changed:
        setattr(state, name, getattr(checked, name))
