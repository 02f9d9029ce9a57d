"""Images as `data:` URLs, for prompts."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING

from vfnb.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["image_data_url"]

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_PNG_MODES = {"1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA"}


def image_data_url(image: Image | bytes | Path) -> str:
    """An image as a `data:` URL for `ImageUrlSource(url=...)`.

    A PIL image becomes a PNG: without loss, and the same pixels always give the same URL, so that a task keeps its
    identity. The content of an image file (PNG, JPEG, GIF, WebP), or its path, is taken as it is.

    Raises:
        ConfigError: it is none of these.
        MissingExtra: it is some other object, and Pillow is not installed.
    """
    if isinstance(image, bytes | Path):
        data = image if isinstance(image, bytes) else image.read_bytes()
        return _url(_kind(data), data)
    try:
        import PIL.Image
    except ImportError as error:
        raise MissingExtra("image_data_url needs Pillow: pip install 'vfnb[image]'") from error
    if not isinstance(image, PIL.Image.Image):
        raise ConfigError(
            f"image_data_url({type(image).__name__}): give a PIL image, the bytes of an image file or its Path"
        )
    if image.mode not in _PNG_MODES:
        image = image.convert("RGB")
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return _url("image/png", buffer.getvalue())


def _kind(data: bytes) -> str:
    for signature, kind in _SIGNATURES:
        if data.startswith(signature):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    raise ConfigError(
        f"this is no PNG, JPEG, GIF or WebP file (it begins with {data[:8]!r}); open it with PIL"
    )


def _url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
