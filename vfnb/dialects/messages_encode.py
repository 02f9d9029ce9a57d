"""Canonical types to Anthropic Messages JSON."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from vfnb.dialects import messages_parts
from vfnb.dialects.lenient import dumps, loads
from vfnb.dialects.messages_decode import BROKEN, is_result
from vfnb.dialects.messages_decode import messages as decoded
from vfnb.types import (
    AssistantMessage,
    Message,
    Messages,
    ReasoningContentPart,
    Tool,
    ToolCall,
    ToolMessage,
)

__all__ = [
    "arguments",
    "blocks",
    "item",
    "items",
    "rewritten",
    "said",
    "sendable",
    "system",
    "tool",
    "tool_use",
]


def item(source: Message) -> dict[str, Any]:
    """One entry of `messages` for a message that has one to itself."""
    extra = dict(source.model_extra or {})
    if isinstance(source, ToolMessage):
        return {"role": "user", "content": [result(source)], **extra.pop("message", {})}
    if isinstance(source, AssistantMessage):
        for key in ("stop_reason", "stop_sequence"):
            extra.pop(key, None)
        return {"role": "assistant", "content": blocks(source), **extra}
    body = source.content
    return {
        "role": source.role,
        "content": body if isinstance(body, str) else messages_parts.blocks(body),
        **extra,
    }


def items(messages: Messages) -> list[dict[str, Any]]:
    """The entries of `messages`. Results that follow one another share an entry, as the API wants them."""
    found: list[dict[str, Any]] = []
    after_result = False
    for message in messages:
        entry = item(message)
        is_result = isinstance(message, ToolMessage)
        if is_result and after_result:
            found[-1]["content"] += entry["content"]
        else:
            found.append(entry)
        after_result = is_result
    return found


def sendable(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of `messages` without thinking that has no signature."""
    if entry["role"] != "assistant":
        return entry
    kept = [block for block in entry["content"] if not _unsigned(block)]
    return entry | {"content": kept}


def _unsigned(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "thinking" and not block.get("signature")


def result(source: ToolMessage) -> dict[str, Any]:
    """A `tool_result` block."""
    extra = {key: value for key, value in (source.model_extra or {}).items() if key != "message"}
    body = source.content if isinstance(source.content, str) else messages_parts.blocks(source.content)
    data: dict[str, Any] = {"type": "tool_result", "tool_use_id": source.tool_call_id, "content": body}
    if source.is_error:
        data["is_error"] = True
    return data | extra


def blocks(source: AssistantMessage, *, raw: bool = False) -> list[Any]:
    """The content blocks of an answer, in their order.

    Args:
        raw: leave arguments as the JSON text that they are.
    """
    return [tool_use(one, raw=raw) if isinstance(one, ToolCall) else one for one in said(source)]


def said(source: AssistantMessage) -> list[Any]:
    """The same with tool calls as they are."""
    parts = source.content if isinstance(source.content, list) else []
    thoughts = [part for part in parts if isinstance(part, ReasoningContentPart) and part.encrypted is None]
    placed = list(enumerate(messages_parts.blocks(source.content)))
    if source.reasoning_content and not thoughts:
        placed.insert(0, (-1, {"type": "thinking", "thinking": source.reasoning_content, "signature": ""}))
    elif source.reasoning_content and len(thoughts) == 1 and not thoughts[0].text:
        place = parts.index(thoughts[0])
        placed[place] = place, placed[place][1] | {"thinking": source.reasoning_content}
    found: list[Any] = []
    calls = list(source.tool_calls)
    for place, block in placed:
        if source.tool_calls and isinstance(block, dict) and block.get("text") == "":
            continue  # the API refuses empty texts
        while calls and _at(calls[0]) <= place:
            found.append(calls.pop(0))
        found.append(block)
    return found + calls


def _at(call: ToolCall) -> float:
    """Before which of the message's parts a call stands."""
    place = (call.model_extra or {}).get("at")
    return place if isinstance(place, int) else float("inf")


def tool_use(call: ToolCall, *, raw: bool = False) -> dict[str, Any]:
    """A `tool_use` block."""
    extra = {key: value for key, value in (call.model_extra or {}).items() if key not in ("at", "raw")}
    text = arguments(call)
    value: Any = msgspec.Raw(text.encode()) if raw else loads(text.encode("utf-8", "surrogatepass"))
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": value, **extra}


def arguments(call: ToolCall) -> str:
    """The arguments as the text of a JSON object, as they were sampled if they are one."""
    text = call.arguments
    if not text.strip():
        return "{}"
    try:
        if isinstance(loads(text.encode("utf-8", "surrogatepass")), dict):
            return text
    except ValueError:
        pass
    return dumps({BROKEN: text}).decode()


def tool(source: Tool) -> dict[str, Any] | None:
    """One entry of `tools`; None for a tool that only another provider can run."""
    if source.raw is not None and ("input_schema" in source.raw or _hosted(source.raw)):
        return source.raw
    if source.type not in ("function", "custom"):
        return None
    data: dict[str, Any] = {
        "name": source.name,
        "description": source.description,
        "input_schema": source.parameters or {"type": "object", "properties": {}},
    }
    if source.strict is not None:
        data["strict"] = source.strict
    return data


_DATED = re.compile(r"_20\d{6}$|^mcp_toolset$")


def _hosted(raw: dict[str, Any]) -> bool:
    """Whether a tool's JSON is that of a tool of this provider, whose types end in a date."""
    return isinstance(raw.get("type"), str) and _DATED.search(raw["type"]) is not None


def system(messages: Messages) -> Any:
    """The top-level `system`: the text of one message, or the blocks of all."""
    if len(messages) == 1 and isinstance(messages[0].content, str):
        return messages[0].content
    return [block for message in messages for block in messages_parts.blocks(message.content)]


def rewritten(source: dict[str, Any], messages: Messages) -> dict[str, Any]:
    """An entry of `messages` with these in place of its own: results where they were, the rest where it began.

    The marks of the cache are those of the entry: the program moves them, and the API takes only a few.
    """
    rest = [message for message in messages if not isinstance(message, ToolMessage)]
    if not isinstance(source.get("content"), list):
        return item(rest[0])
    results = iter(result(message) for message in messages if isinstance(message, ToolMessage))
    own = [message for message in decoded(source) if not isinstance(message, ToolMessage)]
    said: list[Any] | None = None
    if rest != own:
        said = [_marked(block, None) for message in rest for block in messages_parts.blocks(message.content)]
        marks = [mark for block in source["content"] if not is_result(block) and (mark := _mark(block))]
        if marks and said:
            said[-1] = _marked(said[-1], marks[-1])
    blocks: list[Any] = []
    for block in source["content"]:
        if is_result(block):
            blocks.append(_marked(next(results), _mark(block)))
        elif said is None:
            blocks.append(block)
        else:
            blocks += said
            said = []
    return source | {"content": blocks}


_MARK = "cache_control"


def _mark(block: Any) -> Any:
    return block.get(_MARK) if isinstance(block, dict) else None


def _marked(block: Any, mark: Any) -> Any:
    """A block with this mark of the cache and no other."""
    if not isinstance(block, dict):
        return block
    bare = {key: value for key, value in block.items() if key != _MARK}
    return bare if mark is None else bare | {_MARK: mark}
