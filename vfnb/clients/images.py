"""Images of a prompt: one placeholder each where the template writes it, many tokens where the model reads it.

The engine expands placeholders, for it alone knows the model's image processor. What it gives back is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vfnb.clients.engines.base import Generation
from vfnb.clients.rendering import Prompt
from vfnb.errors import UpstreamMalformed
from vfnb.types import ImageUrlContentPart, Message

__all__ = ["collapse", "expanded", "images_of"]

Ids = NDArray[np.int32]


def images_of(messages: Sequence[Message]) -> list[str]:
    """The URLs of all images, in the order of the prompt."""
    return [
        part.image_url.url
        for message in messages
        if isinstance(message.content, list)
        for part in message.content
        if isinstance(part, ImageUrlContentPart)
    ]


def collapse(ids: Ids, media: Sequence[tuple[int, int, int]]) -> Ids:
    """The ids with one placeholder for each range."""
    kept = np.ones(len(ids), np.bool_)
    for begin, end, _ in media:
        kept[begin + 1 : end] = False
    found: Ids = ids[kept]
    return found


def expanded(prompt: Prompt, made: Generation, history: Ids | None) -> Prompt:
    """The prompt as the model saw it, with its spans moved along.

    Args:
        prompt: as rendered and sent.
        made: has the expanded ids, and where the images stand in them.
        history: the expanded ids of the conversation so far, if the prompt goes on from it.

    Raises:
        UpstreamMalformed: the engine's prompt is not this one with placeholders expanded.
    """
    if made.prompt_ids is None or len(made.media) != len(prompt.images):
        raise UpstreamMalformed(
            f"the engine placed {len(made.media)} of {len(prompt.images)} images in its prompt", status=200
        )
    ids = np.asarray(made.prompt_ids, np.int32)
    if not np.array_equal(collapse(ids, made.media), prompt.ids):
        raise UpstreamMalformed(
            "the engine's prompt is not the one it was sent, with images expanded", status=200
        )
    sizes = np.ones(len(prompt.ids), np.int64)
    grown = 0
    for begin, end, _ in made.media:
        sizes[begin - grown] = end - begin
        grown += end - begin - 1
    moved = np.concatenate([[0], np.cumsum(sizes)])
    start = 0
    if history is not None and np.array_equal(ids[: len(history)], history):
        start = len(history)
    content = prompt.content
    if content is not None:
        whole = np.repeat(np.concatenate([np.ones(prompt.start, np.bool_), content]), sizes)
        content = whole[start:]
    return Prompt(
        ids.tolist(),
        start,
        [(int(moved[begin]), int(moved[end])) for begin, end in prompt.spans],
        content,
        images=prompt.images,
        media=list(made.media),
    )
