"""The tokens of a prompt, where nobody can count them exactly or the upstream is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from vfnb.dialects.lenient import dumps
from vfnb.types import Messages, TextContentPart, Tool

if TYPE_CHECKING:
    from vfnb.clients.base import ModelRequest

__all__ = ["estimate", "outgoing_count"]

_BYTES = 4
"""UTF-8 bytes of English text or code in a token, about."""
_ATTACHED = 1600
"""Tokens of an image or file: those of a picture of a megapixel and a half."""
_FRAME = 4
"""Tokens around a message."""


def estimate(messages: Messages, tools: list[Tool]) -> int:
    """A guess: a token for 4 bytes of text, reasoning, tool calls and tools; 1,600 for an image or a file."""
    size = sum(len(dumps([tool.name, tool.description, tool.parameters])) for tool in tools)
    attached = 0
    for message in messages:
        content = message.content
        if isinstance(content, list):
            attached += sum(1 for part in content if part.type in ("image_url", "file", "input_audio"))
            opaque = [part.raw for part in content if part.type == "opaque"]
            size += sum(len(dumps(raw)) for raw in opaque)
            size += sum(_size(part.text) for part in content if isinstance(part, TextContentPart))
        else:
            size += _size(content or "")
        size += _size(getattr(message, "reasoning_content", None) or "")
        size += sum(_size(call.name + call.arguments) for call in getattr(message, "tool_calls", []))
    return max(1, size // _BYTES + _ATTACHED * attached + _FRAME * len(messages))


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def outgoing_count(request: ModelRequest, model: str) -> bytes:
    """The body that asks an upstream for a count: the program's own, with the run's model."""
    assert request.split is not None
    return request.split.assemble({"model": msgspec.json.encode(model)} if model else {})
