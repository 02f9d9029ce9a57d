"""Chat Completions JSON to canonical types. What no canonical type describes is kept, never dropped."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import ValidationError

from vfnb.dialects.faults import RequestError
from vfnb.dialects.lenient import dumps
from vfnb.types import (
    AssistantMessage,
    AudioContentPart,
    FileContentPart,
    FinishReason,
    ImageUrlContentPart,
    Message,
    OpaqueContentPart,
    OtherMessage,
    RefusalContentPart,
    Response,
    SystemMessage,
    TextContentPart,
    Tool,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)

__all__ = ["message", "response", "tools", "usage"]

_PARTS: dict[str, Any] = {
    "text": TextContentPart,
    "image_url": ImageUrlContentPart,
    "input_audio": AudioContentPart,
    "file": FileContentPart,
    "refusal": RefusalContentPart,
}


def message(item: Any) -> Message:
    """One entry of `messages`.

    Raises:
        RequestError: if it is not an object with a role.
    """
    if not isinstance(item, dict) or not isinstance(item.get("role"), str):
        raise RequestError("Each entry of messages must be an object with a role.")
    data = dict(item)
    role = data.pop("role")
    content = _content(data.pop("content", None))
    try:
        if role == "user":
            return UserMessage(content="" if content is None else content, **data)
        if role == "assistant":
            return assistant(data, content)
        if role == "tool":
            call = data.pop("tool_call_id", None)
            return ToolMessage(tool_call_id=_text(call), content="" if content is None else content, **data)
        if role in ("system", "developer"):
            return SystemMessage(content="" if content is None else content, **data)
        if role == "function":
            return ToolMessage(tool_call_id="", content="" if content is None else content, **data)
        return OtherMessage(role=role, content=content, **data)
    except (ValidationError, TypeError) as error:
        raise RequestError(f"A {role} message cannot be read: {error}.") from error


def assistant(data: dict[str, Any], content: Any) -> AssistantMessage:
    """An assistant message from its keys (consumed) and its content parts."""
    refusal = data.pop("refusal", None)
    if isinstance(refusal, str):
        parts = [TextContentPart(text=content)] if isinstance(content, str) and content else content
        content = [*(parts or []), RefusalContentPart(refusal=refusal)]
    calls = [_tool_call(call) for call in data.pop("tool_calls", None) or [] if isinstance(call, dict)]
    legacy = data.pop("function_call", None)
    if isinstance(legacy, dict):
        calls.append(
            ToolCall(
                id="",
                type="function_call",
                name=_text(legacy.get("name")),
                arguments=_arguments(legacy.get("arguments")),
            )
        )
    reasoning = _reasoning(data)
    return AssistantMessage(content=content, reasoning_content=reasoning, tool_calls=calls, **data)


def _reasoning(data: dict[str, Any]) -> str | None:
    """The reasoning text; servers call it `reasoning_content` or `reasoning`, or give only details."""
    first, second = data.pop("reasoning_content", None), data.get("reasoning")
    if isinstance(second, str) or second is None:
        data.pop("reasoning", None)
    for value in (first, second):
        if isinstance(value, str):
            return value
    details = data.get("reasoning_details")
    if not isinstance(details, list):
        return None
    found = [detail.get("text") or detail.get("summary") for detail in details if isinstance(detail, dict)]
    texts = [text for text in found if isinstance(text, str)]
    return "".join(texts) if texts else None


def _content(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list):
        return [_part(part) for part in value]
    return [OpaqueContentPart(raw=value if isinstance(value, dict) else {"value": value})]


def _part(part: Any) -> Any:
    if isinstance(part, str):
        return TextContentPart(text=part)
    if not isinstance(part, dict):
        return OpaqueContentPart(raw={"value": part})
    named = part.get("type")
    kind = _PARTS.get(named) if isinstance(named, str) else None
    if kind is None:
        return OpaqueContentPart(raw=part)
    try:
        return kind(**part)
    except ValidationError:
        return OpaqueContentPart(raw=part)


def _tool_call(call: dict[str, Any]) -> ToolCall:
    data = dict(call)
    identity = _text(data.pop("id", None))
    kind = _text(data.pop("type", None)) or "function"
    if kind in ("function", "custom"):
        body = data.pop(kind, None)
        body = dict(body) if isinstance(body, dict) else {}
        name = _text(body.pop("name", None))
        arguments = _arguments(body.pop("arguments" if kind == "function" else "input", None))
        if body:
            data[f"{kind}_extra"] = body
        return ToolCall(id=identity, name=name, arguments=arguments, type=kind, **data)
    return ToolCall(id=identity, name=_text(data.get("name")) or kind, type=kind, raw=call)


def _arguments(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else dumps(value).decode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def tools(listed: Any, functions: Any = None) -> list[Tool]:
    """The `tools` list, or the older `functions`."""
    found = [_tool(entry) for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    if isinstance(functions, list):
        found += [
            _tool({"type": "function", "function": entry}) for entry in functions if isinstance(entry, dict)
        ]
    return found


def _tool(entry: dict[str, Any]) -> Tool:
    kind = _text(entry.get("type")) or "function"
    nested = entry.get(kind)
    body = nested if isinstance(nested, dict) else entry
    name = _text(body.get("name")) or kind
    description = _text(body.get("description"))
    parameters = body.get("parameters")
    plain = kind == "function" and nested is body and len(entry) == 2
    known = plain and body.keys() <= {"name", "description", "parameters", "strict"}
    return Tool(
        name=name,
        description=description,
        parameters=parameters if isinstance(parameters, dict) else {},
        type=kind,
        strict=body.get("strict") if isinstance(body.get("strict"), bool) else None,
        raw=None if known else entry,
    )


_FINISH: dict[str, FinishReason] = {name: name for name in get_args(FinishReason)}
_FINISH |= {"function_call": "tool_calls", "max_tokens": "length", "eos": "stop", "end_turn": "stop"}


def finish_reason(value: Any, calls: bool) -> FinishReason:
    """The canonical reason; `tool_calls` only if a call came."""
    reason = _FINISH.get(value, "stop") if isinstance(value, str) else "stop"
    return "stop" if reason == "tool_calls" and not calls else reason


def usage(value: Any) -> Usage | None:
    """Token counts and cost of a `usage` object, of Chat or of Responses."""
    if not isinstance(value, dict):
        return None
    prompt = value.get("prompt_tokens_details") or value.get("input_tokens_details")
    completion = value.get("completion_tokens_details") or value.get("output_tokens_details")
    cached = _count(prompt, "cached_tokens") if prompt else 0
    reasoning = _count(completion, "reasoning_tokens") if completion else 0
    cost = value.get("cost")
    return Usage(
        prompt_tokens=_count(value, "prompt_tokens", "input_tokens"),
        completion_tokens=_count(value, "completion_tokens", "output_tokens"),
        cached_tokens=cached or _count(value, "prompt_cache_hit_tokens", "cached_tokens"),
        reasoning_tokens=reasoning or _count(value, "reasoning_tokens"),
        cost=_amount(cost),
    )


_NUMBER = (int, float)
_MOST = 1e15  # what is more is no count, and no sum of counts may leave 64 bits


def _count(source: Any, *names: str) -> int:
    if isinstance(source, dict):
        for name in names:
            found = source.get(name)
            if isinstance(found, _NUMBER):
                return int(_amount(found) or 0)
    return 0


def _amount(value: Any) -> float | None:
    """A number of things or dollars, None if it cannot be one: no server has spent less than nothing."""
    number = isinstance(value, _NUMBER) and not isinstance(value, bool) and 0 <= value < _MOST
    return float(value) if number else None


def response(body: dict[str, Any]) -> Response:
    """A non-streaming reply.

    Raises:
        ValueError: if it has no choice with a message.
    """
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
        raise ValueError("not a chat completion: it has no choices[0].message")
    data = dict(choice["message"])
    data.pop("role", None)
    try:
        reply = assistant(data, _content(data.pop("content", None)))
    except (ValidationError, TypeError) as error:
        raise ValueError(f"not a chat completion: {error}") from error
    return Response(
        message=reply,
        finish_reason=finish_reason(choice.get("finish_reason"), bool(reply.tool_calls)),
        usage=usage(body.get("usage")),
        id=_text(body.get("id")),
        model=_text(body.get("model")),
    )
