"""What a tool gave, as the model reads it: text, images and sound, or an error."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from vfnb.types import (
    AudioContentPart,
    AudioSource,
    ContentPart,
    ImageUrlContentPart,
    ImageUrlSource,
    TextContentPart,
    ToolMessage,
)

__all__ = ["MEDIA_LIMIT", "ToolResult", "audio", "failed", "image", "joined", "result_of"]

MEDIA_LIMIT = 16 << 20  # bytes of base64 in one result; text has the toolset's own, smaller limit
_PARTS = (TextContentPart, ImageUrlContentPart, AudioContentPart)


@dataclass(frozen=True)
class ToolResult:
    """Content parts in order; `is_error` tells the model that the call failed."""

    parts: tuple[ContentPart, ...]
    is_error: bool = False

    @property
    def text(self) -> str:
        """The text parts, a line break between them."""
        return "\n".join(part.text for part in self.parts if isinstance(part, TextContentPart))

    def message(self, call_id: str) -> ToolMessage:
        """The result as the message that answers a call: plain text if there is nothing else."""
        only_text = all(isinstance(part, TextContentPart) for part in self.parts)
        content = self.text if only_text else list(self.parts)
        return ToolMessage(tool_call_id=call_id, content=content, is_error=self.is_error)

    def within(self, limit: int, tool: str) -> ToolResult:
        """Itself, or an error if it is larger than a prompt should take.

        Args:
            limit: bytes of text; images and sound have `MEDIA_LIMIT`.
        """
        text = sum(len(part.text.encode()) for part in self.parts if isinstance(part, TextContentPart))
        media = sum(_media_size(part) for part in self.parts)
        if text > limit:
            return failed(f"the result of {tool} has {text:,} bytes, the limit is {limit:,}; ask for less")
        if media > MEDIA_LIMIT:
            return failed(
                f"the images of {tool}'s result have {media:,} bytes, the limit is {MEDIA_LIMIT:,}; ask for less"
            )
        return self


def failed(text: str) -> ToolResult:
    """An error that the model sees. The text says so too: not every dialect has a flag for it."""
    return ToolResult((TextContentPart(text=f"Error: {text}"),), is_error=True)


def image(data: bytes | str, mime: str = "image/png") -> ImageUrlContentPart:
    """An image part of bytes, or of base64 text."""
    text = data if isinstance(data, str) else base64.b64encode(data).decode()
    return ImageUrlContentPart(image_url=ImageUrlSource(url=f"data:{mime};base64,{text}"))


def audio(data: bytes | str, mime: str) -> AudioContentPart:
    """A sound part of bytes, or of base64 text."""
    text = data if isinstance(data, str) else base64.b64encode(data).decode()
    return AudioContentPart(
        input_audio=AudioSource(data=text, format=mime.rpartition("/")[2].removeprefix("x-"))
    )


def result_of(value: Any) -> ToolResult:
    """A returned value as a result.

    None is empty text. Content parts, PIL images and the content of the `mcp` SDK stay what they are, in lists
    too. Everything else is JSON.

    Raises:
        TypeError: the value has no JSON form.
    """
    if isinstance(value, ToolResult):
        return value
    if type(value).__name__ == "CallToolResult" and _is_mcp(value):
        from vfnb.tasks.tools.convert import from_mcp

        return from_mcp(value)
    if isinstance(value, list | tuple) and value and any(_is_content(item) for item in value):
        return ToolResult(tuple(_part(item) for item in value))
    return ToolResult((_part(value),))


def _is_mcp(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in ("mcp", "mcp_types")


def _is_pil(value: Any) -> bool:
    return any(level.__module__ == "PIL.Image" for level in type(value).__mro__)


def _is_content(value: Any) -> bool:
    return isinstance(value, _PARTS) or _is_mcp(value) or _is_pil(value)


def _part(value: Any) -> ContentPart:
    if isinstance(value, str):
        return TextContentPart(text=value)
    if value is None:
        return TextContentPart(text="")
    if isinstance(value, _PARTS):
        return value
    if _is_pil(value):
        buffer = io.BytesIO()
        value.save(buffer, "PNG")
        return image(buffer.getvalue())
    if _is_mcp(value):
        from vfnb.tasks.tools.convert import part_from_mcp

        return part_from_mcp(value)
    return TextContentPart(text=_json(value))


def _json(value: Any) -> str:
    try:
        if isinstance(value, BaseModel):
            return value.model_dump_json()
        return to_json(value, inf_nan_mode="constants").decode()
    except (PydanticSerializationError, ValueError) as error:
        return _plain_json(value, error)


def _plain_json(value: Any, error: Exception) -> str:
    """numpy scalars and arrays, and what else has `tolist`."""

    def convert(item: Any) -> Any:
        to_list = getattr(item, "tolist", None)
        if to_list is None:
            raise TypeError(
                f"it returned {type(item).__name__}, which has no JSON form; return text, JSON values or images"
            ) from error
        return to_list()

    return json.dumps(value, default=convert, ensure_ascii=False)


def _media_size(part: Any) -> int:
    if isinstance(part, ImageUrlContentPart):
        return len(part.image_url.url)
    return len(part.input_audio.data) if isinstance(part, AudioContentPart) else 0


def joined(parts: Sequence[ContentPart]) -> tuple[ContentPart, ...]:
    """The parts, or one empty text if there are none."""
    return tuple(parts) or (TextContentPart(text=""),)
