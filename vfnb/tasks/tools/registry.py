"""The tools of one running toolset: what `Toolset.register(mcp)` fills."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from vfnb.errors import HookError
from vfnb.tasks.tools.marks import tool_name
from vfnb.tasks.tools.schema import Arguments, arguments_model, describe, json_schema
from vfnb.types import Tool

__all__ = ["RegisteredTool", "Registry"]


@dataclass(frozen=True)
class RegisteredTool:
    """A function that can be called with JSON arguments."""

    name: str
    function: Callable[..., Any]
    model: type[Arguments]
    tool: Tool
    timeout: float | None = None


class Registry:
    """Takes tools as the SDK's `MCPServer` does: `mcp.add_tool(function)` or `@mcp.tool()`.

    In-process harnesses call what is in it directly; programs see it as an MCP server.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._tools: dict[str, RegisteredTool] = {}

    def add_tool(
        self,
        fn: Callable[..., Any],
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        *,
        timeout: float | None = None,
        **hints: Any,
    ) -> None:
        """Offer a function.

        Args:
            fn: sync or async.
            name: the tool's name; the function's by default.
            title: put in front of the description.
            description: text for the model; the docstring by default.
            timeout: seconds for one call; the toolset's by default.
            hints: annotations, icons and metadata of the SDK; no model sees them, so they are left out.

        Raises:
            HookError: the name is taken, or the function cannot be a tool.
        """
        given = tool_name(name if name is not None else str(getattr(fn, "__name__", "")))
        label = f"tool {getattr(fn, '__qualname__', given)}"
        if given in self._tools:
            raise HookError(
                f"{label}: {self.name} has a tool {given!r} already; give one of them another name"
            )
        text = description if description is not None else describe(getattr(fn, "__func__", fn))[0]
        if title:
            text = f"{title}: {text}" if text else title
        model, schema = _model(fn, given, label)
        tool = Tool(name=given, description=text, parameters=schema)
        self._tools[given] = RegisteredTool(given, fn, model, tool, timeout)

    def tool(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Decorator form of `add_tool`."""

        def add(function: Any) -> Any:
            self.add_tool(function, name, **settings)
            return function

        return add

    def remove_tool(self, name: str) -> None:
        """Take a tool back.

        Raises:
            HookError: there is none of that name.
        """
        if self._tools.pop(name, None) is None:
            raise HookError(f"{self.name} has no tool {name!r}; it has {', '.join(self._tools) or 'none'}")

    def __getitem__(self, name: str) -> RegisteredTool:
        return self._tools[name]

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[RegisteredTool]:
        return iter(self._tools.values())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise HookError(
            f"register(mcp): mcp.{name} is not there; a toolset offers tools only (add_tool, tool, remove_tool). "
            "Serve resources and prompts from a server of your own and give it as vf.McpServer"
        )


_Model = tuple[type[Arguments], dict[str, Any]]
_models: weakref.WeakKeyDictionary[Any, _Model] = weakref.WeakKeyDictionary()


def _model(function: Any, name: str, label: str) -> _Model:
    """The argument model and its schema; made once per method, since each rollout registers the same ones anew."""
    plain = getattr(function, "__func__", None)
    found = _models.get(plain) if plain is not None else None
    if found is None:
        model = arguments_model(function, name, label=label)
        found = model, json_schema(model)
        if plain is not None:
            _models[plain] = found
    return found
