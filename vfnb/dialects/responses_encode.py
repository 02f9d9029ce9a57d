"""Canonical messages to Responses items."""

from __future__ import annotations

from typing import Any

from vfnb.types import (
    AssistantMessage,
    AudioContentPart,
    Content,
    FileContentPart,
    ImageUrlContentPart,
    Message,
    OpaqueContentPart,
    ReasoningContentPart,
    RefusalContentPart,
    TextContentPart,
    ToolCall,
    ToolMessage,
    Usage,
)

__all__ = ["item", "items", "outputs", "usage"]

_OWN = ("item", "inner", "mark")


def items(source: Message) -> list[dict[str, Any]]:
    """The input items of one message: several for a turn of the model, else one."""
    if isinstance(source, AssistantMessage):
        return [_short(entry) for entry in outputs(source)]
    return [item(source)]


def _short(entry: dict[str, Any]) -> dict[str, Any]:
    """A message item that has no id may only be sent in the short form, which one text has."""
    content = entry.get("content")
    if entry.get("type") != "message" or "id" in entry or not isinstance(content, list) or len(content) != 1:
        return entry
    part = content[0]
    plain = part == {"type": "output_text", "text": part.get("text"), "annotations": []}
    return {**entry, "content": part["text"]} if plain else entry


def item(source: Message) -> dict[str, Any]:
    """The input item of a message that is not the model's."""
    extra = dict(source.model_extra or {})
    content = source.content
    if isinstance(source, ToolMessage):
        return _result(source, extra)
    if source.role not in ("user", "system") and isinstance(content, list) and len(content) == 1:
        only = content[0]
        if isinstance(only, OpaqueContentPart) and only.raw.get("type") == source.role:
            return only.raw
    return {"type": "message", "role": source.role, "content": _content(content)} | extra


def _result(source: ToolMessage, extra: dict[str, Any]) -> dict[str, Any]:
    kind = extra.pop("type", "function_call_output")
    content = source.content
    if kind.endswith("_response") and isinstance(content, list) and isinstance(content[0], OpaqueContentPart):
        return content[0].raw
    bare = extra.pop("bare", False)
    output = _content(content)
    if bare and isinstance(output, list) and len(output) == 1:
        output = output[0]
    return {"type": kind, "call_id": source.tool_call_id, "output": output} | extra


def _content(content: Content | None) -> Any:
    if content is None or isinstance(content, str):
        return content
    return [_part(part) for part in content if not isinstance(part, ReasoningContentPart)]


def _part(part: Any) -> Any:
    extra = dict(part.model_extra or {})
    if isinstance(part, TextContentPart):
        return {"type": "input_text", "text": part.text} | extra
    if isinstance(part, ImageUrlContentPart):
        source = part.image_url
        detail = source.detail or "auto"
        return {"type": "input_image", "image_url": source.url, "detail": detail} | extra
    if isinstance(part, FileContentPart):
        return {"type": "input_file"} | part.file.model_dump(exclude_none=True) | extra
    if isinstance(part, AudioContentPart):
        return {"type": "input_audio", "input_audio": part.input_audio.model_dump(exclude_none=True)} | extra
    if isinstance(part, OpaqueContentPart):
        return part.raw["value"] if part.raw.keys() == {"value"} else part.raw
    return part.model_dump(exclude_none=True)


# the model's side


def outputs(source: AssistantMessage) -> list[dict[str, Any]]:
    """The items of a turn of the model, with the ids and states that they came with."""
    content = source.content
    parts: list[Any] = [TextContentPart(text=content)] if isinstance(content, str) else list(content or [])
    if isinstance(content, str) and not content and (source.tool_calls or source.reasoning_content):
        parts = []
    found: list[dict[str, Any]] = []
    thoughts = [part for part in parts if isinstance(part, ReasoningContentPart)]
    alone = source.reasoning_content if len(thoughts) == 1 and not thoughts[0].text else None
    if source.reasoning_content and not thoughts:
        found.append(_reasoning(ReasoningContentPart(text=source.reasoning_content)))
    calls = {position: [] for position in range(len(parts) + 1)}  # type: dict[int, list[ToolCall]]
    for call in source.tool_calls:
        at = (call.model_extra or {}).get("at")
        calls[at if isinstance(at, int) and 0 <= at <= len(parts) else len(parts)].append(call)
    said: dict[str, Any] | None = None
    for position, part in enumerate(parts):
        if calls[position]:
            found += [_call(call) for call in calls[position]]
            said = None
        if isinstance(part, ReasoningContentPart):
            found.append(_reasoning(part, alone))
            said = None
        elif isinstance(part, OpaqueContentPart) and "inner" not in (part.model_extra or ()):
            found.append(part.raw)
            said = None
        else:
            keys = (part.model_extra or {}).get("item") if isinstance(part, TextContentPart) else None
            if said is None or keys is not None:
                said = {"type": "message", "role": "assistant", "content": []} | (keys or {})
                found.append(said)
            if "mark" not in (part.model_extra or ()):
                said["content"].append(_output_part(part))
    return found + [_call(call) for call in calls[len(parts)]]


def _output_part(part: Any) -> dict[str, Any]:
    if isinstance(part, TextContentPart):
        extra = {key: value for key, value in (part.model_extra or {}).items() if key not in _OWN}
        return {"type": "output_text", "text": part.text, "annotations": []} | extra
    if isinstance(part, RefusalContentPart):
        return {"type": "refusal", "refusal": part.refusal} | (part.model_extra or {})
    found = _part(part)
    return (
        found if isinstance(found, dict) else {"type": "output_text", "text": str(found), "annotations": []}
    )


def _reasoning(part: ReasoningContentPart, alone: str | None = None) -> dict[str, Any]:
    text = part.text or alone
    data: dict[str, Any] = {"type": "reasoning"} | ((part.model_extra or {}).get("item") or {})
    if "summary" not in data:
        whole = text and not data.get("content")
        data["summary"] = [{"type": "summary_text", "text": text}] if whole else []
    if part.encrypted is not None:
        data["encrypted_content"] = part.encrypted
    return data


def _call(call: ToolCall) -> dict[str, Any]:
    extra = call.model_extra or {}
    raw = extra.get("raw")
    if isinstance(raw, dict) and raw.get("type") == call.type:
        return raw
    custom = call.type == "custom"
    data = {"type": "custom_tool_call" if custom else "function_call"} | (extra.get("item") or {})
    data |= {"call_id": call.id, "name": call.name, ("input" if custom else "arguments"): call.arguments}
    if call.namespace is not None:
        data["namespace"] = call.namespace
    return data


def usage(source: Usage) -> dict[str, Any]:
    """A `usage` object."""
    data: dict[str, Any] = {
        "input_tokens": source.prompt_tokens,
        "input_tokens_details": {"cached_tokens": source.cached_tokens},
        "output_tokens": source.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": source.reasoning_tokens},
        "total_tokens": source.total_tokens,
    }
    if source.cost is not None:
        data["cost"] = source.cost
    return data
