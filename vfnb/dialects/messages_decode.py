"""Anthropic Messages JSON to canonical types. What no canonical type describes is kept, never dropped."""

from __future__ import annotations

from typing import Any

import msgspec
from pydantic import ValidationError

from vfnb.dialects import messages_parts
from vfnb.dialects.faults import RequestError
from vfnb.dialects.lenient import dumps, loads
from vfnb.dialects.messages_usage import finish_reason, plain_reason, usage
from vfnb.types import (
    AssistantMessage,
    Messages,
    OpaqueContentPart,
    OtherMessage,
    ReasoningContentPart,
    Response,
    SystemMessage,
    TextContentPart,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
)

__all__ = ["BROKEN", "inputs", "is_result", "messages", "reply", "response", "system", "tools"]

BROKEN = "INVALID_JSON"
"""Key under which arguments that are no JSON object stand in an `input`, which must be one."""


class _Block(msgspec.Struct, gc=False):
    input: msgspec.Raw = msgspec.Raw(b"")


class _Content(msgspec.Struct, gc=False):
    content: list[_Block]


_inputs = msgspec.json.Decoder(_Content).decode


def inputs(raw: msgspec.Raw | bytes, message: Any) -> list[str]:
    """The text of each block's `input` as it stands in a message; `[]` if it cannot be told.

    Args:
        message: the same, decoded.
    """
    blocks = message.get("content") if isinstance(message, dict) else None
    if not isinstance(blocks, list):
        return []
    for block in blocks:
        if isinstance(block, dict) and "input" in block:
            break
    else:
        return []
    try:
        return [bytes(block.input).decode() for block in _inputs(raw).content]
    except (ValueError, RecursionError):
        return []


def messages(item: Any, texts: list[str] | None = None) -> Messages:
    """The canonical messages of one entry of `messages`: those of its tool results, and one of the rest.

    Args:
        texts: the text of each block's `input`.

    Raises:
        RequestError: if it is not a message.
    """
    if not isinstance(item, dict) or not isinstance(item.get("role"), str):
        raise RequestError("messages: each entry must be an object with a role.")
    data = dict(item)
    role, content = data.pop("role"), data.pop("content", None)
    if content is not None and not isinstance(content, str | list):
        raise RequestError(f"messages: the content of a {role} message must be a string or a list of blocks.")
    try:
        if role == "user":
            return _user(content, data)
        if role == "assistant":
            return [assistant(content, data, texts or [])]
        if role == "system":
            return [SystemMessage(content=messages_parts.parts(content), **data)]
        if role in ("tool", "function"):
            raise RequestError("messages: a tool result is a tool_result block of a user message.")
        return [OtherMessage(role=role, content=messages_parts.parts(content), **data)]
    except (ValidationError, TypeError) as error:
        raise RequestError(f"messages: a {role} message cannot be read: {error}.") from error


def system(value: Any) -> Messages:
    """The message of the top-level `system`.

    Raises:
        RequestError: if it is neither text nor blocks.
    """
    if not value:
        return []
    if not isinstance(value, str | list):
        raise RequestError("system: it must be a string or a list of text blocks.")
    return [SystemMessage(content=messages_parts.parts(value))]


# user messages


def _user(content: Any, extra: dict[str, Any]) -> Messages:
    if not isinstance(content, list):
        return [UserMessage(content=content or "", **extra)]
    results = [block for block in content if is_result(block)]
    rest = [block for block in content if not is_result(block)]
    found: Messages = [_result(block) for block in results]
    if rest or not found:
        found.append(UserMessage(content=messages_parts.parts(rest), **extra))
    elif extra:  # keys of a message that is nothing but results stay with the first of them
        found[0] = found[0].model_copy(update={"message": extra})
    return found


def is_result(block: Any) -> bool:
    """Whether a block of a user message is the result of a tool."""
    return isinstance(block, dict) and block.get("type") == "tool_result"


def _result(block: dict[str, Any]) -> ToolMessage:
    data = {key: value for key, value in block.items() if key not in ("type", "role", "tool_call_id")}
    call, content, failed = (data.pop(key, None) for key in ("tool_use_id", "content", "is_error"))
    if content is not None and not isinstance(content, str | list):
        raise RequestError("messages: the content of a tool_result must be a string or a list of blocks.")
    return ToolMessage(
        tool_call_id=_text(call), content=messages_parts.parts(content), is_error=bool(failed), **data
    )


# assistant messages


def assistant(content: Any, extra: dict[str, Any], texts: list[str]) -> AssistantMessage:
    """An assistant message.

    `reasoning_content` is all of its reasoning. A `ReasoningContentPart` stands where a thinking block stood that
    is not the first block or has a signature; its text is empty if it is the only one. A tool call that other
    blocks follow says by `at` which of the parts it stands before.
    """
    if not isinstance(content, list):
        return AssistantMessage(content=content, **_mine(extra))
    parts: list[Any] = []
    calls: list[tuple[int, ToolCall]] = []
    thoughts: list[ReasoningContentPart] = []
    for position, block in enumerate(content):
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "tool_use" and isinstance(block.get("name"), str):
            calls.append((len(parts), _call(block, texts[position] if position < len(texts) else "")))
            continue
        part = _thought(block) if kind in ("thinking", "redacted_thinking") else _said(block)
        if kind == "thinking" and isinstance(part, ReasoningContentPart):
            thoughts.append(part)
        parts.append(part)
    reasoning = "".join(thought.text for thought in thoughts) or None
    dropped = 0
    if len(thoughts) == 1:
        thoughts[0].text = ""
        if thoughts[0] is parts[0] and not thoughts[0].signature and not thoughts[0].model_extra:
            dropped = 1
            del parts[0]
    for place, call in calls:
        if max(0, place - dropped) < len(parts) and call.model_extra is not None:
            call.model_extra["at"] = max(0, place - dropped)
    said: Any = parts or None
    if len(parts) == 1 and isinstance(parts[0], TextContentPart) and not parts[0].model_extra:
        said = parts[0].text or ("" if not calls else None)
    return AssistantMessage(
        content=said, reasoning_content=reasoning, tool_calls=[call for _, call in calls], **_mine(extra)
    )


def _mine(extra: dict[str, Any]) -> dict[str, Any]:
    """Unknown keys of a message that do not stand where the canonical ones do."""
    return {key: value for key, value in extra.items() if key not in ("reasoning_content", "tool_calls")}


def _thought(block: dict[str, Any]) -> Any:
    data = {key: value for key, value in block.items() if key not in ("type", "text", "encrypted")}
    kind = block["type"]
    value = data.pop("thinking" if kind == "thinking" else "data", None)
    if not isinstance(value, str):
        return OpaqueContentPart(raw=block)
    if kind == "redacted_thinking":
        return ReasoningContentPart(encrypted=value, **data)
    signature = data.pop("signature", None)
    return ReasoningContentPart(text=value, signature=signature or None, **data)


def _said(block: Any) -> Any:
    if isinstance(block, dict) and block.get("type") == "text" and block.get("citations", 0) is None:
        block = {key: value for key, value in block.items() if key != "citations"}
    return messages_parts.part(block)


_CALL = frozenset({"type", "id", "name", "input", "namespace", "arguments", "at", "raw"})


def _call(block: dict[str, Any], text: str) -> ToolCall:
    value = block.get("input")
    if isinstance(value, dict) and value.keys() == {BROKEN} and isinstance(value[BROKEN], str):
        arguments = value[BROKEN]
    elif text:
        arguments = text
    elif isinstance(value, str):
        arguments = value
    else:
        arguments = "" if value is None else dumps(value).decode()
    extra = {key: value for key, value in block.items() if key not in _CALL}
    return ToolCall(id=_text(block.get("id")), name=block["name"], arguments=arguments, **extra)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


# tools and replies


def tools(listed: Any) -> list[Tool]:
    """The `tools` list."""
    return [_tool(entry) for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _tool(entry: dict[str, Any]) -> Tool:
    """One tool; where the cache ends is no part of it."""
    entry = {key: value for key, value in entry.items() if key != "cache_control"}
    kind = _text(entry.get("type")) or "custom"
    schema, strict = entry.get("input_schema"), entry.get("strict")
    own = kind == "custom"  # anything else is run, or at least described, by the provider
    known = own and entry.keys() <= {"type", "name", "description", "input_schema", "strict"}
    return Tool(
        name=_text(entry.get("name")) or kind,
        description=_text(entry.get("description")),
        parameters=schema if isinstance(schema, dict) else {},
        type="function" if own else kind,
        strict=strict if isinstance(strict, bool) else None,
        raw=None if known else entry,
    )


def reply(raw: bytes) -> Response:
    """A non-streaming reply, with the text of its arguments as it stands there.

    Raises:
        ValueError: if it is not JSON, or not a message.
    """
    try:
        body = loads(raw)
    except ValueError as error:
        raise ValueError(f"the reply is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise ValueError(f"the reply is a JSON {type(body).__name__}, not an object")
    return response(body, inputs(raw, body))


def response(body: dict[str, Any], texts: list[str] | None = None) -> Response:
    """A non-streaming reply.

    Args:
        texts: the text of each block's `input`.

    Raises:
        ValueError: if it is not a message.
    """
    content = body.get("content")
    if not isinstance(content, list) or body.get("type", "message") != "message":
        raise ValueError("not a message: it has no list of content blocks")
    reason, sequence = body.get("stop_reason"), body.get("stop_sequence")
    extra: dict[str, Any] = {}
    if isinstance(reason, str) and not plain_reason(reason):
        extra["stop_reason"] = reason
        if sequence is not None:
            extra["stop_sequence"] = sequence
    try:
        said = assistant(content, extra, texts or [])
    except (ValidationError, TypeError) as error:
        raise ValueError(f"not a message: {error}") from error
    return Response(
        message=said,
        finish_reason=finish_reason(reason, bool(said.tool_calls)),
        usage=usage(body.get("usage")),
        id=_text(body.get("id")),
        model=_text(body.get("model")),
    )
