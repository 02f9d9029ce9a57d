"""Content blocks of Anthropic Messages to canonical parts, and back."""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError

from vfnb.types import (
    Content,
    FileContentPart,
    FileSource,
    ImageUrlContentPart,
    ImageUrlSource,
    OpaqueContentPart,
    ReasoningContentPart,
    RefusalContentPart,
    TextContentPart,
)

__all__ = ["blocks", "part", "parts"]

_DATA = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,")


def parts(value: Any) -> Any:
    """The canonical content of a message: text, or a list of parts."""
    if value is None or isinstance(value, str):
        return value or ""
    return [part(block) for block in value]


def part(block: Any) -> Any:
    """A block of a user, system or tool message."""
    if isinstance(block, str):
        return TextContentPart(text=block)
    if not isinstance(block, dict):
        return OpaqueContentPart(raw={"value": block})
    kind = block.get("type")
    try:
        if kind == "text" and isinstance(block.get("text"), str):
            return TextContentPart(**block)
        if kind == "image":
            return _image(block) or OpaqueContentPart(raw=block)
        if kind == "document":
            return _file(block) or OpaqueContentPart(raw=block)
    except (ValidationError, TypeError):
        pass
    return OpaqueContentPart(raw=block)


def _image(block: dict[str, Any]) -> ImageUrlContentPart | None:
    url = _url(block.get("source"))
    if url is None:
        return None
    extra = {key: value for key, value in block.items() if key not in ("type", "source", "image_url")}
    return ImageUrlContentPart(image_url=ImageUrlSource(url=url), **extra)


def _file(block: dict[str, Any]) -> FileContentPart | None:
    source = block.get("source")
    url = _url(source)
    title = block.get("title")
    if title is not None and not isinstance(title, str):
        return None
    if url is not None:
        inline = url.startswith("data:")
        file = FileSource(file_data=url if inline else None, file_url=None if inline else url, filename=title)
    elif isinstance(source, dict) and source.keys() == {"type", "file_id"} and source["type"] == "file":
        file = FileSource(file_id=source["file_id"], filename=title)
    else:
        return None
    extra = {key: value for key, value in block.items() if key not in ("type", "source", "title", "file")}
    return FileContentPart(file=file, **extra)


def _url(source: Any) -> str | None:
    """A source as a URL, None if a URL cannot say all of it."""
    if not isinstance(source, dict):
        return None
    if source.keys() == {"type", "url"} and source["type"] == "url":
        url = source["url"]
        return url if isinstance(url, str) and not url.startswith("data:") else None
    if source.keys() == {"type", "media_type", "data"} and source["type"] == "base64":
        kind, data = source["media_type"], source["data"]
        if isinstance(kind, str) and isinstance(data, str) and ";" not in kind and "," not in kind:
            return f"data:{kind};base64,{data}"
    return None


def blocks(source: Content | None) -> list[Any]:
    """The blocks of a message's content."""
    if not source:
        return []
    if isinstance(source, str):
        return [{"type": "text", "text": source}]
    return [_block(part) for part in source]


def _block(part: Any) -> Any:
    if isinstance(part, OpaqueContentPart):
        return part.raw["value"] if part.raw.keys() == {"value"} else part.raw
    extra = dict(part.model_extra or {})
    if isinstance(part, ImageUrlContentPart):
        return {"type": "image", "source": _source(part.image_url.url), **extra}
    if isinstance(part, FileContentPart):
        return _document(part) | extra
    if isinstance(part, RefusalContentPart):
        return {"type": "text", "text": part.refusal, **extra}
    if isinstance(part, ReasoningContentPart):
        if part.encrypted is not None:
            return {"type": "redacted_thinking", "data": part.encrypted, **extra}
        return {"type": "thinking", "thinking": part.text, "signature": part.signature or "", **extra}
    return part.model_dump(exclude_none=True)


def _document(part: FileContentPart) -> dict[str, Any]:
    file = part.file
    if file.file_id is not None:
        source = {"type": "file", "file_id": file.file_id}
    else:
        url = file.file_data or file.file_url or ""
        source = _source(url) if file.file_data is None or _DATA.match(url) else _plain(url)
    data: dict[str, Any] = {"type": "document", "source": source}
    if file.filename is not None:
        data["title"] = file.filename
    return data


def _plain(data: str) -> dict[str, Any]:
    """Base64 without a `data:` before it; the API takes it for PDF only."""
    return {"type": "base64", "media_type": "application/pdf", "data": data}


def _source(url: str) -> dict[str, Any]:
    found = _DATA.match(url)
    if found is None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": found[1] or "text/plain", "data": url[found.end() :]}
