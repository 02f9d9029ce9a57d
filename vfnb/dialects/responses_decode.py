"""Responses items to canonical messages. What no canonical type describes is kept, never dropped.

A turn of the model comes as several items; `join` makes one message of them. Its content parts stand in the order
of the items; a tool call that parts follow says by `at` how many stand before it. `reasoning_content` is all of the
reasoning; the text of a reasoning part is empty if it is the only one. The keys of an item that say nothing to the
model (`id`, `status`, ...) stay as `item` on its first part or its call.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from pydantic import ValidationError

from vfnb.dialects.chat_decode import usage
from vfnb.dialects.faults import RequestError
from vfnb.dialects.lenient import dumps
from vfnb.types import (
    AssistantMessage,
    AudioContentPart,
    FileContentPart,
    FinishReason,
    ImageUrlContentPart,
    Message,
    Messages,
    OpaqueContentPart,
    OtherMessage,
    ReasoningContentPart,
    RefusalContentPart,
    Response,
    SystemMessage,
    TextContentPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

__all__ = ["assistant", "ended_turn", "ends_turn", "join", "message", "reply", "response"]

_TEXTS = ("input_text", "output_text", "text")
_RESULTS = ("_output", "_response")
_TYPED = ("function_call", "custom_tool_call")


class _Peek(msgspec.Struct, gc=False):
    """What decides whose an item is."""

    id: Any = None
    type: Any = None
    role: Any = None
    execution: Any = None
    created_by: Any = None


_peek = msgspec.json.Decoder(_Peek).decode


def ends_turn(item: msgspec.Raw | bytes) -> bool:
    """Whether an item is not the model's, so that it ends the model's turn."""
    try:
        seen = _peek(item)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True
    return _ends(seen.id, seen.type, seen.role, seen.execution, seen.created_by)


def ended_turn(item: Any) -> bool:
    """The same of an item that has been decoded."""
    if not isinstance(item, dict):
        return True
    return _ends(*(item.get(key) for key in ("id", "type", "role", "execution", "created_by")))


def _ends(identity: Any, kind: Any, role: Any, execution: Any, creator: Any) -> bool:
    if kind is None and role is None:
        return identity is None  # a reference
    return not _is_assistant(kind, role, execution == "server" or bool(creator))


def _is_assistant(kind: Any, role: Any, hosted: bool) -> bool:
    """Items of unknown types are the model's: they came out of a reply, unless their name says otherwise."""
    if not isinstance(kind, str) or kind == "message":
        return bool(role == "assistant")
    if kind.endswith(_RESULTS) and not hosted and kind != "program_output":
        return False
    return role in (None, "assistant") and not kind.endswith("_trigger")


def message(item: Any) -> Message:
    """One entry of `input`, or `input` itself if it is a string.

    Raises:
        RequestError: if it is not an object with a type or a role.
    """
    if isinstance(item, str):
        return UserMessage(content=item)
    if isinstance(item, dict) and item.keys() == {"id"}:
        item = {"type": "item_reference", **item}
    kind, role = (item.get("type"), item.get("role")) if isinstance(item, dict) else (None, None)
    if not isinstance(kind, str) and not isinstance(role, str):
        raise RequestError("Each entry of input must be an object with a type or a role.")
    try:
        hosted = item.get("execution") == "server" or bool(item.get("created_by"))
        if _is_assistant(kind, role, hosted):
            return assistant(item)
        if isinstance(kind, str) and kind != "message":
            return _result(item, kind) if kind.endswith(_RESULTS) else _other(item, kind)
        return _spoken(item)
    except (ValidationError, TypeError) as error:
        raise RequestError(f"An input item of type {kind or role!r} cannot be read: {error}.") from error


def _spoken(item: dict[str, Any]) -> Message:
    data = {key: value for key, value in item.items() if key != "type"}
    role = data.pop("role", None)
    content = _content(data.pop("content", None))
    if role == "user":
        return UserMessage(content="" if content is None else content, **data)
    if role in ("system", "developer"):
        return SystemMessage(content="" if content is None else content, **data)
    return OtherMessage(role=_text(role), content=content, **data)


def _other(item: dict[str, Any], kind: str) -> Message:
    return OtherMessage(role=kind, content=[OpaqueContentPart(raw=item)])


def _result(item: dict[str, Any], kind: str) -> ToolMessage:
    """What a tool gave; `type` stays for all but the outputs of functions."""
    data = dict(item)
    if kind.endswith("_response"):
        call = _text(data.get("approval_request_id") or data.get("call_id"))
        return ToolMessage(tool_call_id=call, content=[OpaqueContentPart(raw=item)], type=kind)
    if kind == "function_call_output":
        del data["type"]
    call, output = _text(data.pop("call_id", None)), data.pop("output", None)
    content = _content(output)
    if isinstance(output, dict):
        data["bare"] = True
    return ToolMessage(tool_call_id=call, content="" if content is None else content, **data)


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
    try:
        return _known_part(part) or OpaqueContentPart(raw=part)
    except (ValidationError, TypeError):
        return OpaqueContentPart(raw=part)


def _known_part(part: dict[str, Any]) -> Any:
    data = {key: value for key, value in part.items() if value is not None}
    kind = data.pop("type", None)
    if kind in _TEXTS:
        return TextContentPart(**{key: value for key, value in data.items() if value != []})
    if kind == "refusal":
        return RefusalContentPart(**data)
    if kind == "input_image" and "image_url" in data:
        source = {"url": data.pop("image_url"), "detail": data.pop("detail", None)}
        return ImageUrlContentPart(image_url=source, **data)
    if kind == "input_file":
        return FileContentPart(file=data)
    if kind == "input_audio":
        return AudioContentPart(**data)
    return None


# the model's side


Pieces = tuple[list[Any], list[ToolCall]]
"""Content parts and tool calls of one item."""


def assistant(item: dict[str, Any]) -> AssistantMessage:
    """One item of the model's as a message of its own."""
    return _message(*_pieces(item))


def _message(parts: list[Any], calls: list[ToolCall]) -> AssistantMessage:
    thoughts = [part for part in parts if isinstance(part, ReasoningContentPart)]
    reasoning = "".join(part.text for part in thoughts) or None
    if len(thoughts) == 1:
        only = thoughts[0]
        if reasoning and parts[0] is only and only.encrypted is None and not only.model_extra:
            parts = parts[1:]
            calls = [_moved(call) for call in calls]
        else:
            only.text = ""
    content = parts[0].text if _plain(parts) else parts or None
    return AssistantMessage(content=content, reasoning_content=reasoning, tool_calls=calls)


def _moved(call: ToolCall) -> ToolCall:
    """A call whose message has lost its first part."""
    at = (call.model_extra or {}).get("at")
    return call if at is None else call.model_copy(update={"at": at - 1})


def _pieces(item: dict[str, Any]) -> Pieces:
    kind = item.get("type")
    if not isinstance(kind, str) or kind == "message":
        return _said(item), []
    if kind == "reasoning":
        return [_reasoning(item)], []
    if kind in _TYPED:
        return [], [_call(item, kind)]
    if kind.endswith("_call") and isinstance(item.get("call_id"), str) and item.get("execution") != "server":
        return [], [_program_call(item, kind)]
    return [OpaqueContentPart(raw=item)], []


def _said(item: dict[str, Any]) -> list[Any]:
    """The parts of a message item; the first says what the item has beside them."""
    keys = {key: value for key, value in item.items() if key not in ("type", "role", "content")}
    content = item.get("content")
    listed = content if isinstance(content, list) else [] if content is None else [content]
    if keys and len(listed) == 1 and isinstance(listed[0], dict) and listed[0].get("type") in _TEXTS:
        only = _part(listed[0] | {"item": keys})  # the usual case, as `_started` would say it
        if isinstance(only, TextContentPart):
            return [only]
    parts = [_part(part) for part in listed]
    for part in parts:
        if isinstance(part, OpaqueContentPart):
            part.__pydantic_extra__ = {"inner": True}
    return _started(parts, keys) if keys else parts


def _plain(parts: list[Any]) -> bool:
    return len(parts) == 1 and isinstance(parts[0], TextContentPart) and not parts[0].model_extra


def _started(parts: list[Any], keys: dict[str, Any]) -> list[Any]:
    """Parts that begin a message item: the first text says so, else a mark before them."""
    first = parts[0] if parts else None
    if isinstance(first, TextContentPart):
        started = TextContentPart(text=first.text, **{**(first.model_extra or {}), "item": keys})
        return [started, *parts[1:]]
    return [TextContentPart(text="", item=keys, mark=True), *parts]


def _reasoning(item: dict[str, Any]) -> ReasoningContentPart:
    """The summary's text, or the reasoning itself if there is no summary; odd forms stay in `item`."""
    keys = {key: value for key, value in item.items() if key != "type" and value is not None}
    encrypted = keys.pop("encrypted_content", None)
    summary, content = keys.get("summary"), keys.get("content")
    text = _joined(summary) or _joined(content)
    if not content:
        keys.pop("content", None)
        if summary == ([{"type": "summary_text", "text": text}] if text else []):
            del keys["summary"]
    if encrypted is not None and not isinstance(encrypted, str):
        keys["encrypted_content"], encrypted = encrypted, None
    return ReasoningContentPart(text=text, encrypted=encrypted, **({"item": keys} if keys else {}))


def _joined(parts: Any) -> str:
    if isinstance(parts, str):
        return parts
    found = [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return "".join(text for text in found if isinstance(text, str))


def _call(item: dict[str, Any], kind: str) -> ToolCall:
    keys = dict(item)
    del keys["type"]
    identity, name = _text(keys.pop("call_id", None)), _text(keys.pop("name", None))
    arguments = keys.pop("arguments" if kind == "function_call" else "input", None)
    namespace = keys.pop("namespace", None)
    return ToolCall(
        id=identity,
        name=name,
        arguments=_text(arguments) if not isinstance(arguments, dict | list) else dumps(arguments).decode(),
        type="function" if kind == "function_call" else "custom",
        namespace=namespace if isinstance(namespace, str) else None,
        **({"item": keys} if keys else {}),
    )


_BESIDE = ("type", "id", "call_id", "status", "created_by")


def _program_call(item: dict[str, Any], kind: str) -> ToolCall:
    """A call of a tool that the protocol knows and the program runs: shells, patches, computers."""
    said = {key: value for key, value in item.items() if key not in _BESIDE}
    return ToolCall(id=item["call_id"], name=kind, arguments=dumps(said).decode(), type=kind, raw=item)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


# turns


def join(messages: Messages) -> Messages:
    """Messages of the model that follow one another are one turn."""
    joined: Messages = []
    run: list[AssistantMessage] = []
    for each in messages:
        if isinstance(each, AssistantMessage):
            run.append(each)
            continue
        if run:
            joined.append(_merge(run))
            run = []
        joined.append(each)
    if run:
        joined.append(_merge(run))
    return joined


def _merge(run: list[AssistantMessage]) -> AssistantMessage:
    return run[0] if len(run) == 1 else _turn([(_parts(each), each.tool_calls) for each in run])


def _parts(source: AssistantMessage) -> list[Any]:
    """The parts of a message of one item."""
    content = source.content
    parts = [TextContentPart(text=content)] if isinstance(content, str) else list(content or [])
    if source.reasoning_content is not None:
        state: Any = parts[0] if parts else ReasoningContentPart()
        extra = state.model_extra or {}
        part = ReasoningContentPart(text=source.reasoning_content, encrypted=state.encrypted, **extra)
        parts = [part, *parts[1:]]
    return parts


def _turn(run: list[Pieces]) -> AssistantMessage:
    """One message of the pieces of items that follow one another."""
    parts: list[Any] = []
    calls: list[ToolCall] = []
    open_calls = 0  # calls from here on have no part after them yet
    for new, called in run:
        if new:
            while open_calls < len(calls):
                calls[open_calls] = calls[open_calls].model_copy(update={"at": len(parts)})
                open_calls += 1
            if parts and _in_message(parts[-1]) and _in_message(new[0]) and not _starts(new[0]):
                new = _started(new, {})
            parts += new
        calls += called
    return _message(parts, calls)


def _in_message(part: Any) -> bool:
    if isinstance(part, OpaqueContentPart):
        return "inner" in (part.model_extra or ())
    return not isinstance(part, ReasoningContentPart)


def _starts(part: Any) -> bool:
    return isinstance(part, TextContentPart) and "item" in (part.model_extra or ())


def reply(items: Iterable[Any]) -> AssistantMessage:
    """The output items of one reply as the model's turn, whatever they are."""
    run = [_pieces(item) for item in items if isinstance(item, dict)]
    return _turn(run) if run else AssistantMessage(content="")


# replies

_REASONS: dict[str, FinishReason] = {"max_output_tokens": "length", "content_filter": "content_filter"}


def response(body: dict[str, Any]) -> Response:
    """A reply, or the `response` of a stream's last event.

    Raises:
        ValueError: if it has no output, or is not finished, or says that it failed.
    """
    output = body.get("output")
    if not isinstance(output, list):
        raise ValueError("not a response: it has no list `output`")
    status = body.get("status")
    if status not in (None, "completed", "incomplete"):
        raise ValueError(f"the response is not complete: its status is {status!r}")
    try:
        message = reply(output)
    except (ValidationError, TypeError) as error:
        raise ValueError(f"not a response: {error}") from error
    return Response(
        message=message,
        finish_reason=_finish_reason(body, bool(message.tool_calls)),
        usage=usage(body.get("usage")),
        id=_text(body.get("id")),
        model=_text(body.get("model")),
    )


def _finish_reason(body: dict[str, Any], calls: bool) -> FinishReason:
    if body.get("status") == "incomplete":
        details = body.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        return _REASONS.get(reason, "length") if isinstance(reason, str) else "length"
    return "tool_calls" if calls else "stop"
