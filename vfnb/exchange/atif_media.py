"""Images and sounds of a trajectory as files beside it."""

from __future__ import annotations

import base64
import binascii
import mimetypes
from hashlib import blake2b
from pathlib import Path
from typing import Any

__all__ = ["MediaWriter"]

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_SOUNDS = {
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "mpeg": "audio/mpeg",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
}


class MediaWriter:
    """Writes what messages carry inline into `media/`, each content once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def content(self, given: Any) -> str | list[dict[str, Any]]:
        """A message's content in ATIF's form."""
        if given is None or isinstance(given, str):
            return given or ""
        return [self._part(part) for part in given]

    def changed(self, message: Any) -> bool:
        """Whether reading the content back may give something else than the message has."""
        given = getattr(message, "content", None)
        return isinstance(given, list) and any(self._lossy(part) for part in given)

    def _lossy(self, part: Any) -> bool:
        if part.type == "text":
            return bool(part.model_extra)
        if part.type != "image_url" or self._source(part) is None:
            return True
        return bool(part.model_extra or part.image_url.model_extra or part.image_url.detail)

    def _part(self, part: Any) -> dict[str, Any]:
        if part.type == "text":
            return {"type": "text", "text": part.text}
        source = self._source(part)
        if source is None:
            return {"type": "text", "text": getattr(part, "text", "") or f"[{part.type}]"}
        return {"type": "image" if part.type == "image_url" else "audio", "source": source}

    def _source(self, part: Any) -> dict[str, Any] | None:
        """Where an image or a sound is; None for what ATIF has no part for."""
        if part.type == "input_audio":
            media = _SOUNDS.get(part.input_audio.format)
            return None if media is None else self._file(part.input_audio.data, media)
        if part.type != "image_url":
            return None
        url = part.image_url.url
        if not url.startswith("data:"):
            media = mimetypes.guess_type(url.partition("?")[0])[0]
            return {"media_type": media, "path": url} if media in _IMAGES else None
        head, _, data = url.removeprefix("data:").partition(",")
        media, _, coding = head.partition(";")
        return self._file(data, media) if coding == "base64" and media in _IMAGES else None

    def _file(self, data: str, media: str) -> dict[str, Any] | None:
        try:
            raw = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            return None
        if base64.b64encode(raw).decode() != data:
            return None
        name = f"media/{blake2b(raw, digest_size=12).hexdigest()}.{media.rpartition('/')[2]}"
        place = self.folder / name
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(raw)
        return {"media_type": media, "path": name}
