"""The tools of Responses requests: functions, namespaces of them, custom tools and the provider's own."""

from __future__ import annotations

from typing import Any

from vfnb.types import Tool

__all__ = ["encode", "tools"]

_PLAIN = {"type", "name", "description", "parameters", "strict"}


def tools(listed: Any) -> list[Tool]:
    """The `tools` list; the tools of a namespace stand one by one."""
    found: list[Tool] = []
    for entry in listed if isinstance(listed, list) else []:
        if not isinstance(entry, dict):
            continue
        inner = entry.get("tools")
        if entry.get("type") == "namespace" and isinstance(inner, list):
            name, about = _text(entry.get("name")), _text(entry.get("description"))
            found += [_tool(tool, name, about) for tool in inner if isinstance(tool, dict)]
        else:
            found.append(_tool(entry))
    return found


def _tool(entry: dict[str, Any], namespace: str | None = None, about: str = "") -> Tool:
    kind = _text(entry.get("type")) or "function"
    parameters, strict = entry.get("parameters"), entry.get("strict")
    known = kind == "function" and entry.keys() <= _PLAIN
    return Tool(
        name=_text(entry.get("name")) or kind,
        description=_text(entry.get("description")),
        parameters=parameters if isinstance(parameters, dict) else {},
        type=kind,
        namespace=namespace,
        strict=strict if isinstance(strict, bool) else None,
        raw=None if known else entry,
        **({"namespace_description": about} if about else {}),
    )


def encode(listed: list[Tool]) -> list[dict[str, Any]]:
    """A `tools` list."""
    found: list[dict[str, Any]] = []
    spaces: dict[str, dict[str, Any]] = {}
    for tool in listed:
        if tool.namespace is None:
            found.append(_entry(tool))
            continue
        space = spaces.get(tool.namespace)
        if space is None:
            about = (tool.model_extra or {}).get("namespace_description", "")
            space = {"type": "namespace", "name": tool.namespace, "description": about, "tools": []}
            spaces[tool.namespace] = space
            found.append(space)
        space["tools"].append(_entry(tool))
    return found


def _entry(tool: Tool) -> dict[str, Any]:
    raw = tool.raw
    nested = raw.get(tool.type) if raw is not None else None
    if raw is not None and isinstance(nested, dict):  # as Chat has it
        return {"type": tool.type, **_flat(nested)}
    if raw is not None and tool.type != "function":
        return raw
    data: dict[str, Any] = {"type": "function", "name": tool.name, "parameters": tool.parameters}
    if tool.description:
        data["description"] = tool.description
    return data | {"strict": bool(tool.strict)}


def _flat(nested: dict[str, Any]) -> dict[str, Any]:
    """The body of a Chat tool; Chat nests a grammar once more."""
    form = nested.get("format")
    if isinstance(form, dict) and isinstance(form.get("grammar"), dict):
        return {**nested, "format": {"type": "grammar", **form["grammar"]}}
    return nested


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
