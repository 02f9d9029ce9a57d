"""A prompt with every kind of part that Chat has, in a meaningful order."""

from __future__ import annotations

from typing import Any

from PIL import Image

import vfnb as vf
from vfnb.utils.image import image_data_url

__all__ = ["WIRE", "multimodal"]

_IMAGE = image_data_url(Image.new("RGB", (2, 2), (200, 0, 0)))
WIRE: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is shown in this image?"},
            {"type": "image_url", "image_url": {"url": _IMAGE, "detail": "low"}},
            {"type": "text", "text": "And said here?"},
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
            },
        ],
    },
]
"""The prompt as Chat Completions has it on the wire."""


def multimodal() -> vf.Messages:
    """The same prompt from typed parts."""
    return [
        vf.SystemMessage(content="Be brief."),
        vf.UserMessage(
            content=[
                vf.TextContentPart(text="What is shown in this image?"),
                vf.ImageUrlContentPart(image_url=vf.ImageUrlSource(url=_IMAGE, detail="low")),
                vf.TextContentPart(text="And said here?"),
                vf.AudioContentPart(input_audio=vf.AudioSource(data="UklGRg==", format="wav")),
                vf.FileContentPart(
                    file=vf.FileSource(filename="a.pdf", file_data="data:application/pdf;base64,JVBERi0=")
                ),
            ]
        ),
    ]
