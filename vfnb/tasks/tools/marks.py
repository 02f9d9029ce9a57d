"""`@vf.tool`, and what the decorator notes on a method."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from vfnb.errors import HookError

__all__ = ["ToolSpec", "tool", "tool_methods", "tool_name", "tool_names", "tool_spec"]

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__vfnb_tool__"
_NAME = re.compile(r"^[A-Za-z0-9_-]{1,64}$")  # what every provider accepts


@dataclass(frozen=True)
class ToolSpec:
    """What the decorator says; None where it leaves the choice to function and config."""

    name: str | None = None
    description: str | None = None
    timeout: float | None = None


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, timeout: float | None = None
) -> Callable[[F], F]: ...
def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
) -> Any:
    """Offer a method of a Toolset to the model. It may be sync or async.

    The parameters' annotations make the JSON schema; the docstring describes the tool, its `Args:` section the
    parameters. What it returns is what the model reads: text as it is, images and content parts as such,
    anything else as JSON. What it raises becomes a tool error.

    Args:
        name: the tool's name; the method's by default.
        description: text for the model in place of the docstring.
        timeout: seconds for one call; the toolset's `timeout.call` by default.

    Raises:
        HookError: a name that no provider accepts, or a timeout that is not positive.
    """
    if timeout is not None and not timeout > 0:
        raise HookError(f"@tool(timeout={timeout!r}): seconds must be more than 0")
    spec = ToolSpec(None if name is None else tool_name(name), description, timeout)

    def mark(target: Any) -> Any:
        plain = getattr(target, "__func__", target)
        if not callable(plain) or isinstance(plain, type):
            raise HookError(f"@tool is for functions, got {target!r}")
        setattr(plain, _MARK, spec)
        return target

    return mark if function is None else mark(function)


def tool_name(name: str) -> str:
    """The name itself.

    Raises:
        HookError: providers would refuse it.
    """
    if not _NAME.match(name):
        raise HookError(f"tool name {name!r}: use 1 to 64 letters, digits, `_` and `-`")
    return name


def tool_spec(function: Any) -> ToolSpec | None:
    """What the decorator of a function says, None if it has none."""
    spec = getattr(getattr(function, "__func__", function), _MARK, None)
    return spec if isinstance(spec, ToolSpec) else None


def tool_names(cls: type) -> list[str]:
    """The names of a class's tools, without what `register` adds."""
    return [spec.name or attribute for attribute, spec in tool_methods(cls).items()]


def tool_methods(cls: type) -> dict[str, ToolSpec]:
    """The decorated methods of a class by attribute name, those of its bases first.

    Raises:
        HookError: an overriding method lost the decorator.
    """
    found: dict[str, ToolSpec] = {}
    for level in reversed(cls.__mro__):
        for attribute, value in vars(level).items():
            spec = tool_spec(value)
            if spec is not None:
                found[attribute] = spec
            elif attribute in found and value is None:
                del found[attribute]
            elif attribute in found and (callable(value) or inspect.ismethoddescriptor(value)):
                raise HookError(
                    f"{level.__name__}.{attribute} replaces a tool and is none itself; decorate it with @tool, "
                    f"or write `{attribute} = None` to drop the tool"
                )
    return found
