"""Tools on their way to another dialect: all become functions, with plain names."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from vfnb.dialects.lenient import dumps
from vfnb.types import Tool, ToolCall

__all__ = ["Names"]

_BAD = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 64
_INPUT = "input"


class Names:
    """What the tools of one call are named on the upstream's wire, and back."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.offered: list[Tool] = []
        """The tools as any dialect can write them."""
        self.left_out: list[str] = []
        """The tools that only the program's provider can run."""
        self._known: dict[str, Tool] = {}
        for tool in tools:
            if tool.type not in ("function", "custom"):
                self.left_out.append(tool.name)
                continue
            name = self._free(_wire_name(tool.namespace, tool.name))
            self._known[name] = tool
            self.offered.append(_function(name, tool))

    def _free(self, name: str) -> str:
        found, number = name, 2
        while found in self._known:
            found, number = f"{name[: _LONGEST - 4]}_{number}", number + 1
        return found

    def wire(self, name: str, namespace: str | None = None) -> str | None:
        """The name on the wire of a tool that is offered; None if it is not."""
        for wire, tool in self._known.items():
            if tool.name == name and (namespace is None or tool.namespace == namespace):
                return wire
        return None

    def wire_call(self, call: ToolCall) -> ToolCall:
        """A call of an earlier answer as a function's."""
        name = self.wire(call.name, call.namespace) or _wire_name(call.namespace, call.name)
        arguments = call.arguments
        if call.type not in ("function", "function_call"):
            arguments = (
                arguments if isinstance(call.parsed, dict) and call.type != "custom" else _wrapped(arguments)
            )
        return ToolCall(id=call.id, name=name, arguments=arguments)

    def original(self, call: ToolCall) -> ToolCall:
        """A call of the upstream's answer as the program knows its tool."""
        tool = self._known.get(call.name)
        if tool is None:
            return ToolCall(id=call.id, name=call.name, arguments=call.arguments)
        arguments = _unwrapped(call) if tool.type == "custom" else call.arguments
        return ToolCall(
            id=call.id, name=tool.name, arguments=arguments, type=tool.type, namespace=tool.namespace
        )

    def is_text(self, name: str) -> bool:
        """Whether a tool on the wire takes text, so that its arguments are known only when they are whole."""
        tool = self._known.get(name)
        return tool is not None and tool.type == "custom"


def _wire_name(namespace: str | None, name: str) -> str:
    whole = _BAD.sub("_", f"{namespace.rstrip('_')}__{name}" if namespace else name)
    if len(whole) <= _LONGEST:
        return whole
    return f"{whole[: _LONGEST - 9]}_{sha256(whole.encode()).hexdigest()[:8]}"


def _function(name: str, tool: Tool) -> Tool:
    if tool.type == "function":
        return Tool(name=name, description=tool.description, parameters=tool.parameters, strict=tool.strict)
    raw = tool.raw or {}
    body = raw.get("custom") if isinstance(raw.get("custom"), dict) else raw
    form = body.get("format") if isinstance(body, dict) else None
    grammar = json.dumps(form) if isinstance(form, dict) and form.get("type") == "grammar" else ""
    about = "The whole input, as plain text." + (
        f" It must follow this grammar: {grammar}" if grammar else ""
    )
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {_INPUT: {"type": "string", "description": about}},
        "required": [_INPUT],
    }
    return Tool(name=name, description=tool.description, parameters=schema)


def _wrapped(text: str) -> str:
    return dumps({_INPUT: text}).decode()


def _unwrapped(call: ToolCall) -> str:
    value = call.parsed
    text = value.get(_INPUT) if isinstance(value, dict) else None
    return text if isinstance(text, str) else call.arguments
