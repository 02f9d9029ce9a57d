"""Content parts of a message. Unknown keys are kept (provider state must survive byte for byte)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Tag

__all__ = [
    "AudioContentPart",
    "AudioSource",
    "ContentPart",
    "FileContentPart",
    "FileSource",
    "ImageUrlContentPart",
    "ImageUrlSource",
    "OpaqueContentPart",
    "ReasoningContentPart",
    "RefusalContentPart",
    "TextContentPart",
]


class Open(BaseModel):
    """A record that keeps keys it does not know."""

    model_config = ConfigDict(extra="allow")


class TextContentPart(Open):
    """Plain text."""

    type: Literal["text"] = "text"
    text: str


class ImageUrlSource(Open):
    """Where an image is: an `https:` or a `data:` URL."""

    url: str
    detail: str | None = None


class ImageUrlContentPart(Open):
    """An image by URL (`vfnb.utils.image.image_data_url` makes one from a PIL image)."""

    type: Literal["image_url"] = "image_url"
    image_url: ImageUrlSource


class AudioSource(Open):
    """Base64 audio with its container format, e.g. `wav`."""

    data: str
    format: str


class AudioContentPart(Open):
    """A sound clip in the prompt."""

    type: Literal["input_audio"] = "input_audio"
    input_audio: AudioSource


class FileSource(Open):
    """A file by provider id, by URL or inline as base64."""

    file_id: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None


class FileContentPart(Open):
    """A document in the prompt."""

    type: Literal["file"] = "file"
    file: FileSource


class RefusalContentPart(Open):
    """The model's refusal text."""

    type: Literal["refusal"] = "refusal"
    refusal: str


class ReasoningContentPart(Open):
    """Structured reasoning with the provider's own state; plain reasoning text is `reasoning_content`."""

    type: Literal["reasoning"] = "reasoning"
    text: str = ""
    signature: str | None = None
    encrypted: str | None = None


class OpaqueContentPart(Open):
    """A part that no canonical type describes, with its raw JSON."""

    type: Literal["opaque"] = "opaque"
    raw: dict[str, Any]


_TAGS = {"text", "image_url", "input_audio", "file", "refusal", "reasoning", "opaque"}


def _tag(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if kind in _TAGS else None


ContentPart = Annotated[
    Annotated[TextContentPart, Tag("text")]
    | Annotated[ImageUrlContentPart, Tag("image_url")]
    | Annotated[AudioContentPart, Tag("input_audio")]
    | Annotated[FileContentPart, Tag("file")]
    | Annotated[RefusalContentPart, Tag("refusal")]
    | Annotated[ReasoningContentPart, Tag("reasoning")]
    | Annotated[OpaqueContentPart, Tag("opaque")],
    Discriminator(_tag),
]
