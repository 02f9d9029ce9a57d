"""The rules for what an intercept may return, and what to make of it.

Request: other contents in new user and tool messages, nothing else. Response: another text and other texts in
unsigned hosted results, no tool calls. Tool call: the result in its place.
"""

from __future__ import annotations

import copy
from typing import Any

from vfnb.errors import HookFailed
from vfnb.types import (
    AssistantMessage,
    Content,
    Message,
    Request,
    Response,
    TextContentPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

__all__ = ["answer_of", "call_result", "copy_of", "edits_of", "shortened"]

_FREE = {"content", "is_error"}


def copy_of(request: Request) -> Request:
    """A request that a hook may write on. Messages of plain text are copied flat, which is enough for them."""
    return Request.model_construct(
        messages=[_copy(message) for message in request.messages],
        tools=[tool.model_copy(deep=True) for tool in request.tools],
        model=request.model,
        sampling=copy.deepcopy(request.sampling),
    )


def _copy(message: Message) -> Message:
    if message.model_extra or isinstance(message.content, list):
        return message.model_copy(deep=True)
    if isinstance(message, AssistantMessage) and message.tool_calls:
        calls = [call.model_copy(deep=bool(call.model_extra)) for call in message.tool_calls]
        return message.model_copy(update={"tool_calls": calls})
    return message.model_copy()


def edits_of(label: str, before: Request, after: Any, first: int) -> dict[int, Message]:
    """The messages that a hook changed, by position.

    Args:
        label: the hook's name in errors.
        before: what it got; `after`: what it returned.
        first: position of the first new message.

    Raises:
        HookFailed: it changed something that it must not.
    """
    if not isinstance(after, Request):
        raise HookFailed(
            f"{label} returned {_kind(after)}; return a copy of the vf.Request, or None to change nothing"
        )
    if len(after.messages) != len(before.messages):
        raise HookFailed(
            f"{label} returned {len(after.messages)} messages for {len(before.messages)}; it may rewrite messages, "
            "not add or remove any"
        )
    if after.tools != before.tools:
        raise HookFailed(
            f"{label} changed the tool definitions; it may rewrite new user and tool messages only"
        )
    for name in ("model", "sampling"):
        if getattr(after, name) != getattr(before, name):
            raise HookFailed(
                f"{label} changed the request's {name}; it may rewrite new user and tool messages only"
            )
    found: dict[int, Message] = {}
    for position, (old, new) in enumerate(zip(before.messages, after.messages, strict=True)):
        if new != old:
            _check(label, position, old, new, known=position < first)
            found[position] = new
    return found


def _check(label: str, position: int, old: Message, new: Message, *, known: bool) -> None:
    where = f"{label}: message {position} ({old.role})"
    if known:
        raise HookFailed(
            f"{where} is history that the model has seen already; only new messages may be rewritten"
        )
    if (
        isinstance(old, AssistantMessage)
        and isinstance(new, AssistantMessage)
        and old.tool_calls != new.tool_calls
    ):
        raise HookFailed(
            f"{where} has other tool calls now; names, ids and arguments of tool calls stay as they are"
        )
    if not isinstance(old, UserMessage | ToolMessage):
        raise HookFailed(f"{where} was rewritten; only new user and tool messages may be")
    if type(new) is not type(old):
        raise HookFailed(f"{where} became a {new.role} message; the role must stay")
    if isinstance(old, ToolMessage) and isinstance(new, ToolMessage) and old.tool_call_id != new.tool_call_id:
        raise HookFailed(
            f"{where} has another tool_call_id now: {new.tool_call_id!r} for {old.tool_call_id!r}"
        )
    was, now = old.model_dump(exclude=_FREE), new.model_dump(exclude=_FREE)
    if was != now:
        keys = ", ".join(sorted(key for key in was | now if was.get(key) != now.get(key)))
        raise HookFailed(f"{where} has another {keys} now; only its content may change")


def answer_of(label: str, before: Response, after: Any) -> Response | None:
    """The answer that a hook put in the model's place; None if it is the same.

    Raises:
        HookFailed: it changed something that it must not.
    """
    if not isinstance(after, Response):
        raise HookFailed(
            f"{label} returned {_kind(after)}; return a copy of the vf.Response, or None to change nothing"
        )
    if after == before:
        return None
    if after.message.tool_calls:
        raise HookFailed(
            f"{label} returned an answer with tool calls; a replacement is text only. To block one call, intercept "
            "the vf.ToolCall; to end the run, use a vf.Response stop"
        )
    for name in ("usage", "id", "model"):
        if getattr(after, name) != getattr(before, name):
            raise HookFailed(f"{label} changed the answer's {name}; it may replace the text only")
    _check_hosted(label, before, after)
    said = after.message.reasoning_content
    if said is not None and said != before.message.reasoning_content:
        raise HookFailed(f"{label} changed the reasoning; it may replace the text, and drop the reasoning")
    if after.finish_reason == "tool_calls":
        after = after.model_copy(update={"finish_reason": "stop"})
    answer: Response = after
    if not after.message.text and not after.hosted_results and not after.message.content:
        raise HookFailed(f"{label} returned an answer without text; put something into its place")
    return answer


def _check_hosted(label: str, before: Response, after: Response) -> None:
    old, new = before.hosted_results, after.hosted_results
    if [(one.id, one.tool, one.signed) for one in old] != [(one.id, one.tool, one.signed) for one in new]:
        raise HookFailed(f"{label} added, removed or renamed hosted tool results; only their text may change")
    for one, other in zip(old, new, strict=True):
        if one.signed and one.text != other.text:
            raise HookFailed(
                f"{label} changed the result {one.id!r} of {one.tool or 'a hosted tool'}, which the provider has "
                "signed; it would refuse it. Replace the answer's text, or use a vf.Response stop"
            )


def call_result(label: str, call: ToolCall, result: Any) -> ToolMessage:
    """What a hook gave as the result of a tool call; a text becomes a tool message.

    Raises:
        HookFailed: it is neither, or the message answers another call.
    """
    if isinstance(result, str):
        return ToolMessage(tool_call_id=call.id, content=result)
    if not isinstance(result, ToolMessage):
        raise HookFailed(
            f"{label} returned {_kind(result)}; return a vf.ToolMessage, its text, or None to let it run"
        )
    if result.tool_call_id != call.id:
        raise HookFailed(f"{label} answered the call {result.tool_call_id!r}; it was asked about {call.id!r}")
    return result


def shortened(message: Message, limit: int | None) -> tuple[Message, int]:
    """A message with at most `limit` bytes (UTF-8) of text, and how many bytes that cost."""
    if limit is None or message.content is None:
        return message, 0
    size = len(message.text.encode("utf-8", "surrogatepass"))
    if size <= limit:
        return message, 0
    content: Content
    if isinstance(message.content, str):
        content = _head(message.content, limit)
    else:
        content, left = [], limit
        for part in message.content:
            if isinstance(part, TextContentPart):
                text = _head(part.text, left)
                left = left - len(text.encode("utf-8", "surrogatepass")) if text == part.text else 0
                part = part.model_copy(update={"text": text})
            content.append(part)
    short = message.model_copy(update={"content": content})
    return short, size - len(short.text.encode("utf-8", "surrogatepass"))


def _head(text: str, limit: int) -> str:
    return text.encode("utf-8", "surrogatepass")[:limit].decode("utf-8", "ignore")


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"
