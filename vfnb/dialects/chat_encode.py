"""Canonical types to Chat Completions JSON."""

from __future__ import annotations

from typing import Any

from vfnb.types import (
    AssistantMessage,
    Content,
    Message,
    OpaqueContentPart,
    ReasoningContentPart,
    RefusalContentPart,
    TextContentPart,
    Tool,
    ToolCall,
    ToolMessage,
    Usage,
)

__all__ = ["message", "tool", "tool_call", "usage"]


def message(source: Message) -> dict[str, Any]:
    """One entry of `messages`."""
    data: dict[str, Any] = {"role": source.role}
    extra = dict(source.model_extra or {})
    if isinstance(source, AssistantMessage):
        data |= assistant(source)
    elif isinstance(source, ToolMessage):
        data["content"] = _content(source.content)
        if not source.tool_call_id and "name" in extra:
            data["role"] = "function"
        else:
            data["tool_call_id"] = source.tool_call_id
    else:
        data["content"] = _content(source.content)
    return data | extra


def assistant(source: AssistantMessage) -> dict[str, Any]:
    """The keys of an assistant message besides its role and unknown keys."""
    content = source.content
    data: dict[str, Any] = {}
    if isinstance(content, list):
        refusals = [part for part in content if isinstance(part, RefusalContentPart)]
        texts = [part for part in content if isinstance(part, TextContentPart)]
        if refusals and len(refusals) + len(texts) == len(content):
            data["refusal"] = "".join(part.refusal for part in refusals)
            content = "".join(part.text for part in texts) if texts else None
    data["content"] = _content(content)
    if source.reasoning_content is not None:
        data["reasoning_content"] = source.reasoning_content
    legacy = [call for call in source.tool_calls if call.type == "function_call"]
    calls = [tool_call(call) for call in source.tool_calls if call.type != "function_call"]
    if calls:
        data["tool_calls"] = calls
    if legacy:
        data["function_call"] = {"name": legacy[0].name, "arguments": legacy[0].arguments}
    return data


def _content(content: Content | None) -> Any:
    if content is None or isinstance(content, str):
        return content
    return [_part(part) for part in content if not isinstance(part, ReasoningContentPart)]


def _part(part: Any) -> Any:
    if isinstance(part, OpaqueContentPart):
        return part.raw["value"] if part.raw.keys() == {"value"} else part.raw
    return part.model_dump(exclude_none=True)


def tool_call(call: ToolCall) -> dict[str, Any]:
    """One entry of `tool_calls`."""
    extra = dict(call.model_extra or {})
    if "raw" in extra:
        return dict(extra["raw"])
    kind = "custom" if call.type == "custom" else "function"
    body = {"name": call.name, ("input" if kind == "custom" else "arguments"): call.arguments}
    body |= extra.pop(f"{kind}_extra", {})
    return {"id": call.id, "type": kind, kind: body} | extra


def tool(source: Tool) -> dict[str, Any]:
    """One entry of `tools`."""
    if source.raw is not None:
        return source.raw
    body: dict[str, Any] = {
        "name": source.name,
        "description": source.description,
        "parameters": source.parameters,
    }
    if source.strict is not None:
        body["strict"] = source.strict
    return {"type": "function", "function": body}


def usage(source: Usage) -> dict[str, Any]:
    """A `usage` object."""
    data: dict[str, Any] = {
        "prompt_tokens": source.prompt_tokens,
        "completion_tokens": source.completion_tokens,
        "total_tokens": source.total_tokens,
        "prompt_tokens_details": {"cached_tokens": source.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": source.reasoning_tokens},
    }
    if source.cost is not None:
        data["cost"] = source.cost
    return data
