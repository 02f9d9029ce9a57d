"""Between canonical messages and token ids: what a renderer is told, and what it read in a completion."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from vfnb.errors import UpstreamRejected
from vfnb.types import (
    AssistantMessage,
    ImageUrlContentPart,
    Message,
    RefusalContentPart,
    TextContentPart,
    Tool,
    ToolCall,
    ToolMessage,
)
from vfnb.utils.ids import new_id

_CALLS = ("ok", "unknown_tool")  # a block that is cut off or no JSON is text

__all__ = ["Offer", "Prompt", "answer", "plain_messages"]

Ids = NDArray[np.int32]


@dataclass(slots=True)
class Prompt:
    """A prompt in tokens."""

    ids: list[int]
    """All of it."""
    start: int = 0
    """How many leading tokens are those of the history, taken over unchanged."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Where the last messages stand, as `TokenTurn.spans`."""
    content: NDArray[np.bool_] | None = None
    """bool[len(ids) - start]: message text and not template, if the renderer knows."""
    images: list[str] = field(default_factory=list)
    """URLs of its images, in order; `ids` has one placeholder for each until the engine has expanded them."""
    media: list[tuple[int, int, int]] = field(default_factory=list)
    """Where they stand once they are expanded, as `TokenTurn.media`."""


class Offer:
    """The tools of a request as the template gets them, and the way back from the names in it.

    A tool in a namespace is `namespace__name`; one that takes free text is a function with the argument `input`.
    Tools that a provider runs by itself cannot be offered: `left_out` names them.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.plain: list[dict[str, Any]] = []
        self.left_out: list[str] = []
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            self._add(tool)

    def _add(self, tool: Tool) -> None:
        if tool.type not in ("function", "custom"):
            self.left_out.append(tool.name or tool.type)
            return
        name = f"{tool.namespace}__{tool.name}" if tool.namespace else tool.name
        parameters = tool.parameters
        if tool.type == "custom":
            parameters = {
                "type": "object",
                "properties": {"input": {"type": "string"}},
                "required": ["input"],
            }
        body = {"name": name, "description": tool.description, "parameters": parameters}
        self.plain.append({"type": "function", "function": body})
        self._tools[name] = tool

    def call(self, name: str, arguments: str) -> ToolCall:
        """A call as the program knows the tool."""
        tool = self._tools.get(name)
        if tool is None:
            return ToolCall(id=_call_id(), name=name, arguments=arguments)
        if tool.type == "custom":
            arguments = _free_text(arguments)
        return ToolCall(
            id=_call_id(), name=tool.name, arguments=arguments, type=tool.type, namespace=tool.namespace
        )


def _call_id() -> str:
    return f"call_{new_id()[:24]}"


def _free_text(arguments: str) -> str:
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    text = value.get("input") if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments


def plain_messages(messages: Sequence[Message], *, images: bool = False) -> list[dict[str, Any]]:
    """Messages as templates take them.

    Args:
        images: whether the template can show images.

    Raises:
        UpstreamRejected: a message has something that a text template cannot show.
    """
    return [_plain(message, images) for message in messages]


def _plain(message: Message, images: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"role": message.role, "content": _content(message, images)}
    if isinstance(message, AssistantMessage):
        if message.reasoning_content:
            data["reasoning_content"] = message.reasoning_content
        if message.tool_calls:
            data["tool_calls"] = [_plain_call(call) for call in message.tool_calls]
    if isinstance(message, ToolMessage):
        data["tool_call_id"] = message.tool_call_id
    return data


def _plain_call(call: ToolCall) -> dict[str, Any]:
    name = f"{call.namespace}__{call.name}" if call.namespace else call.name
    arguments: Any = {"input": call.arguments} if call.type == "custom" else call.parsed
    return {"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _content(message: Message, images: bool) -> Any:
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    parts: list[dict[str, Any]] = []
    for part in content:
        if isinstance(part, TextContentPart):
            parts.append({"type": "text", "text": part.text})
        elif isinstance(part, RefusalContentPart):
            parts.append({"type": "text", "text": part.refusal})
        elif images and isinstance(part, ImageUrlContentPart):
            parts.append(part.model_dump(exclude_none=True))
        elif part.type != "reasoning":
            raise UpstreamRejected(
                f"a {message.role} message has a part of type {part.type!r}, which a token client cannot show to "
                "the model; use a relay for it",
                status=400,
            )
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def answer(parsed: Any, text_of: Callable[[int, int], str], offer: Offer, *, calls: bool) -> AssistantMessage:
    """The message that a completion says.

    A call that cannot be read as one stays in the text, as the model wrote it.

    Args:
        parsed: a renderer's `ParsedResponse`.
        text_of: the completion's text between two of its tokens.
        calls: whether the program wants calls; else they are text.
    """
    text = parsed.content or ""
    found: list[ToolCall] = []
    for entry in parsed.tool_calls:
        clean = str(getattr(entry, "status", "ok")) in _CALLS
        name, arguments = _read_call(entry) if calls and clean else ("", "")
        if name:
            found.append(offer.call(name, arguments))
        else:
            written = entry.raw if entry.token_span is None else text_of(*entry.token_span)
            text = f"{text}\n{written}" if text else written
    return AssistantMessage(
        content=text, reasoning_content=parsed.reasoning_content or None, tool_calls=found
    )


def _read_call(entry: Any) -> tuple[str, str]:
    """Name and arguments of a call, the arguments as the model wrote them where they can be cut out."""
    name = entry.name
    try:
        raw = msgspec.json.decode(entry.raw.strip().encode(), type=dict[str, msgspec.Raw])
        for key in ("arguments", "parameters"):
            if key in raw:
                written = bytes(raw[key]).decode()
                name = name or msgspec.json.decode(raw.get("name", b'""'))
                return (name if isinstance(name, str) else ""), written
    except (msgspec.DecodeError, UnicodeEncodeError):
        pass
    arguments = entry.arguments
    if isinstance(arguments, Mapping):
        return name or "", json.dumps(arguments, ensure_ascii=False)
    return (name or "", arguments) if isinstance(arguments, str) else ("", "")
