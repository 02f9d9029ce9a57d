"""A message as short words and as full text, whatever its parts are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vfnb.lab.words import one_line
from vfnb.types import AssistantMessage

if TYPE_CHECKING:
    from vfnb.types import ContentPart, Message

__all__ = ["full_text", "parts_of", "preview"]


def preview(message: Message, limit: int = 80) -> str:
    """One line: the text, the calls, and what else the message has."""
    parts = [message.text[: 4 * limit]]
    if isinstance(message, AssistantMessage):
        parts += [f"→ {call.name}({call.arguments[:limit]})" for call in message.tool_calls[:8]]
        if not any(parts) and message.reasoning_content:
            parts.append(f"[reasoning] {message.reasoning_content[: 4 * limit]}")
    parts += [f"[{_kind(part)}]" for part in _parts(message) if part.type != "text"]
    return one_line(" ".join(part for part in parts if part), limit)


def full_text(message: Message) -> str:
    """Everything the message says, part by part, on lines of their own."""
    parts: list[str] = []
    if isinstance(message, AssistantMessage) and message.reasoning_content:
        parts.append(f"[reasoning] {message.reasoning_content}")
    content = getattr(message, "content", None)
    if isinstance(content, str):
        parts.append(content)
    for kind, head, text in parts_of(message):
        parts.append(text if kind == "text" and text else f"[{head}] {text}".rstrip())
    if isinstance(message, AssistantMessage):
        parts += [f"→ {call.name}({call.arguments})" for call in message.tool_calls]
    return "\n".join(part for part in parts if part)


def parts_of(message: Message) -> list[tuple[str, str, str]]:
    """The typed parts of the content as `(text or part, what it is, its text)`."""
    return [
        (
            "text" if part.type == "text" else "part",
            _kind(part),
            getattr(part, "text", None) or getattr(part, "refusal", None) or "",
        )
        for part in _parts(message)
    ]


def _parts(message: Message) -> list[ContentPart]:
    content = getattr(message, "content", None)
    return content if isinstance(content, list) else []


def _kind(part: ContentPart) -> str:
    match part.type:
        case "image_url":
            url = part.image_url.url
            return f"image {len(url):,} characters inline" if url.startswith("data:") else f"image {url}"
        case "input_audio":
            return f"audio {part.input_audio.format}"
        case "file":
            return f"file {part.file.filename or part.file.file_id or part.file.file_url or 'inline'}"
        case "opaque":
            return f"{part.raw.get('type', 'part')}"
        case kind:
            return kind
