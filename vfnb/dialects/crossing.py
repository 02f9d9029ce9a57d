"""What of a conversation crosses from one dialect to another: what both can say stays, the rest goes or is refused.

What a program says must arrive, so what the upstream's dialect cannot write is refused. What a model said before
loses only what is private to its provider. The table is docs/translation.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vfnb.dialects.base import Dialect
from vfnb.dialects.faults import RequestError
from vfnb.dialects.tooling import Names
from vfnb.types import (
    AssistantMessage,
    AudioContentPart,
    FileContentPart,
    ImageUrlContentPart,
    Message,
    Messages,
    OpaqueContentPart,
    OtherMessage,
    ReasoningContentPart,
    RefusalContentPart,
    TextContentPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

__all__ = ["STATE", "Crossing", "plain"]

STATE = "upstream"
"""Extra key of an answer that came in another dialect: `{dialect, message}`, the answer with its state."""

_HELD = frozenset({"item_reference", "compaction", "compaction_summary", "context_compaction"})
"""Items that stand for a part of the history."""
_QUIET = frozenset(
    {"item", "cache_control", "index", "after", "at", "inner", "id", "status", "annotations", "citations"}
)


class Crossing:
    """The messages of one call on their way to an upstream.

    Args:
        upstream: the dialect they go to.
        names: what the tools are called there.
        program: name of the dialect they come from.

    Attributes:
        dropped: what could not be carried, in the order of its first occurrence.
    """

    def __init__(self, upstream: Dialect[Any, Any], names: Names, program: str) -> None:
        self._upstream = upstream
        self._names = names
        self._program = program
        self.dropped: dict[str, None] = {}

    def messages(self, source: Iterable[Message]) -> Messages:
        """The messages as the upstream's dialect can write them.

        Raises:
            RequestError: something that the program says cannot be carried.
        """
        found: Messages = []
        attached: list[Any] = []
        for message in _numbered(source):
            if attached and not isinstance(message, ToolMessage):
                found.append(UserMessage(content=attached))
                attached = []
            if isinstance(message, AssistantMessage):
                found.append(self._answer(message))
            elif isinstance(message, ToolMessage):
                result, more = self._result(message)
                found.append(result)
                attached += more
            elif isinstance(message, OtherMessage):
                raise self._refusal(f"a message of role {message.role!r}")
            else:
                content = message.content
                kept = content if isinstance(content, str) else self._parts(content)
                found.append(type(message)(content=kept))
        return [*found, UserMessage(content=attached)] if attached else found

    def _refusal(self, what: str) -> RequestError:
        return RequestError(
            f"{what} cannot be carried from {self._program} to {self._upstream.name}: leave it out, or use a model "
            f"behind a server that speaks {self._program}.",
            code="unsupported_value",
        )

    # the model's side

    def _answer(self, message: AssistantMessage) -> AssistantMessage:
        own = (message.model_extra or {}).get(STATE)
        if isinstance(own, dict) and own.get("dialect") == self._upstream.name:
            full = AssistantMessage.model_validate(own["message"])
            for call, known in zip(full.tool_calls, message.tool_calls, strict=False):
                call.id = call.id or known.id
            return full
        for part in message.content if isinstance(message.content, list) else []:
            kind = part.raw.get("type") if isinstance(part, OpaqueContentPart) else None
            if isinstance(kind, str) and kind in _HELD:
                raise self._refusal(f"{kind}, for which only the provider has the text,")
        found, lost = plain(message, reasoning="reasoning" in self._upstream.carries)
        self.dropped |= dict.fromkeys(lost)
        found.tool_calls = [self._names.wire_call(call) for call in found.tool_calls]
        return found

    # the program's side

    def _result(self, message: ToolMessage) -> tuple[ToolMessage, list[Any]]:
        """A tool's result, and what of it has to stand in a message of its own."""
        body: Any = message.content if isinstance(message.content, str) else self._parts(message.content)
        more: list[Any] = []
        if isinstance(body, list) and "result_media" not in self._upstream.carries:
            shown = [part for part in body if not isinstance(part, TextContentPart)]
            body = "".join(part.text for part in body if isinstance(part, TextContentPart))
            if shown:
                more = [TextContentPart(text=f"Of the result of tool call {message.tool_call_id}:"), *shown]
                body = body or "(see the next message)"
        result = ToolMessage(tool_call_id=message.tool_call_id, content=body, is_error=message.is_error)
        return result, more

    def _parts(self, parts: list[Any]) -> list[Any]:
        return [self._part(part) for part in parts]

    def _part(self, part: Any) -> Any:
        carries = self._upstream.carries
        if isinstance(part, TextContentPart):
            return TextContentPart(text=part.text)
        if isinstance(part, RefusalContentPart):
            return TextContentPart(text=part.refusal)
        if isinstance(part, ImageUrlContentPart) and "image" in carries:
            return ImageUrlContentPart(image_url=part.image_url)
        if isinstance(part, AudioContentPart) and "audio" in carries:
            return AudioContentPart(input_audio=part.input_audio)
        if isinstance(part, FileContentPart):
            return self._file(part)
        if isinstance(part, OpaqueContentPart):
            text = _reference(part.raw)
            if text is not None:
                return TextContentPart(text=text)
            raise self._refusal(f"a part of type {part.raw.get('type') or next(iter(part.raw), None)!r}")
        raise self._refusal(f"a part of type {part.type!r}")

    def _file(self, part: FileContentPart) -> FileContentPart:
        file, carries = part.file, self._upstream.carries
        if file.file_data is None and file.file_id is not None:
            raise self._refusal(f"the file {file.file_id!r}, which only the provider of {self._program} has,")
        if "file" not in carries or (file.file_data is None and "file_url" not in carries):
            raise self._refusal(
                "a file" if file.file_data is not None else f"a file by its URL ({file.file_url})"
            )
        return FileContentPart(file=file)


def _reference(raw: dict[str, Any]) -> str | None:
    """The text of a part that only names something."""
    name = raw.get("tool_name") if raw.get("type") == "tool_reference" else None
    return f"Tool {name} is available." if isinstance(name, str) else None


def plain(message: AssistantMessage, *, reasoning: bool = True) -> tuple[AssistantMessage, list[str]]:
    """An answer without what is private to its provider, and the names of what that was.

    Args:
        reasoning: keep the text of the reasoning.
    """
    lost: list[str] = []
    texts, thoughts, refusals = [], [], []
    parts = (
        message.content
        if isinstance(message.content, list)
        else [TextContentPart(text=message.content or "")]
    )
    for part in parts:
        if isinstance(part, TextContentPart):
            texts.append(part.text)
        elif isinstance(part, RefusalContentPart):
            refusals.append(part.refusal)
        elif isinstance(part, ReasoningContentPart):
            thoughts.append(part.text)
            lost += ["reasoning signature"] * bool(part.signature) + ["encrypted reasoning"] * bool(
                part.encrypted
            )
        elif isinstance(part, OpaqueContentPart):
            lost.append(f"{part.raw.get('type') or next(iter(part.raw), 'part')} of an answer")
        else:
            lost.append(f"{part.type} of an answer")
        if isinstance(part, TextContentPart) and part.model_extra:
            lost += [f"{key} of a text" for key in part.model_extra if key not in _QUIET]
    thought = message.reasoning_content or "".join(thoughts) or None
    if thought and not reasoning:
        lost.append("reasoning")
        thought = None
    calls = [_plain_call(call, lost) for call in message.tool_calls]
    text = "".join(texts)
    content: Any = text if text or not calls else None
    if refusals:
        content = [
            *([TextContentPart(text=text)] if text else []),
            RefusalContentPart(refusal="".join(refusals)),
        ]
    return AssistantMessage(content=content, reasoning_content=thought, tool_calls=calls), lost


def _plain_call(call: ToolCall, lost: list[str]) -> ToolCall:
    if (call.model_extra or {}).get("thought_signature"):
        lost.append("reasoning signature")
    return ToolCall(
        id=call.id, name=call.name, arguments=call.arguments, type=call.type, namespace=call.namespace
    )


def _numbered(source: Iterable[Message]) -> Iterable[Message]:
    """Messages in which every call has an id and every result that of its call, for dialects that have none."""
    open_calls: list[tuple[str, str]] = []
    number = 0
    for message in source:
        if isinstance(message, AssistantMessage):
            if any(not call.id for call in message.tool_calls):
                calls = []
                for call in message.tool_calls:
                    number += 1
                    calls.append(call if call.id else call.model_copy(update={"id": f"call_{number}"}))
                message = message.model_copy(update={"tool_calls": calls})
            open_calls = [(call.id, call.name) for call in message.tool_calls]
        elif isinstance(message, ToolMessage):
            if not message.tool_call_id:
                name = (message.model_extra or {}).get("name")
                fits = [identity for identity, called in open_calls if name in (None, called)]
                message = message.model_copy(update={"tool_call_id": fits[0] if fits else ""})
            open_calls = [known for known in open_calls if known[0] != message.tool_call_id]
        yield message
