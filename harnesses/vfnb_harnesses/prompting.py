"""A task's prompt as an agent program takes it: one text, a system text, image files."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vfnb.agents import HarnessSession
from vfnb.errors import ConfigError, HarnessError
from vfnb.tasks import Task, resolve_text_prompt
from vfnb.types import ImageUrlContentPart, Messages, TextContentPart, resolve_messages
from vfnb_harnesses.program_box import box_home

if TYPE_CHECKING:
    from vfnb.tasks import TaskData

__all__ = ["Prompt", "check_prompt", "opening_prompt", "prompt_of"]


@dataclass(frozen=True)
class Prompt:
    """What the program is told.

    Attributes:
        text: the user's words.
        system: instructions of the harness and the task, where the program takes them apart from the prompt.
        images: files in the box, absolute paths, in their order.
    """

    text: str
    system: str = ""
    images: tuple[str, ...] = ()


def check_prompt(data: TaskData, *, images: bool, harness: str) -> None:
    """Refuse a prompt in which something would be lost.

    Raises:
        ConfigError: it has turns of an assistant, or parts that this program cannot take.
    """
    if not images:
        resolve_text_prompt(data)
        return
    where = f"task {data.idx if data.idx is not None else data.name or ''}".rstrip()
    for position, message in enumerate(resolve_messages(data.prompt)):
        if message.role not in ("system", "user"):
            raise ConfigError(
                f"{where}: prompt[{position}] is a turn of the role {message.role!r}, which harness {harness!r} "
                "cannot hand to its program; use a harness that forwards messages, such as 'null'"
            )
    try:
        _pictures(resolve_messages(data.prompt))
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None


async def opening_prompt(
    session: HarnessSession, task: Task[Any, Any, Any], system: str, *, apart: bool
) -> Prompt:
    """The prompt that opens the conversation.

    Args:
        system: the harness's own instructions, put before the task's.
        apart: whether the program takes a system text; if not, it is put in front of the prompt.
    """
    data = task.data
    instructions = "\n\n".join(text for text in (system, data.system_prompt) if text)
    images = await _write(session, _pictures(resolve_messages(data.prompt)))
    if apart:
        return Prompt(data.prompt_text, instructions, images)
    return Prompt("\n\n".join(text for text in (instructions, data.prompt_text) if text), "", images)


async def prompt_of(session: HarnessSession, messages: Messages, *, images: bool) -> Prompt:
    """What the user says next.

    Raises:
        HarnessError: something in it would be lost.
    """
    try:
        pictures = _pictures(messages)
    except ValueError as error:
        raise HarnessError(f"resume(): {error}") from None
    if pictures and not images:
        raise HarnessError("resume(): this program takes no images")
    files = await _write(session, pictures)
    return Prompt("\n\n".join(message.text for message in messages), "", files)


def _pictures(messages: Messages) -> list[tuple[str, bytes]]:
    """The images of messages: file ending and content.

    Raises:
        ValueError: a part is neither text nor an image that is carried in the message itself.
    """
    found = []
    for message in messages:
        for part in message.content if isinstance(message.content, list) else ():
            if isinstance(part, ImageUrlContentPart):
                found.append(_decoded(part.image_url.url))
            elif not isinstance(part, TextContentPart):
                raise ValueError(f"a part of type {part.type!r} in the prompt would be lost")
    return found


def _decoded(url: str) -> tuple[str, bytes]:
    head, comma, data = url.partition(",")
    if not (comma and head.startswith("data:image/") and head.endswith(";base64")):
        raise ValueError(
            f"an image by the address {url[:60]!r} cannot be handed over as a file; give it as a data: URL, with "
            "vfnb.utils.image.image_data_url"
        )
    try:
        return head[len("data:image/") : -len(";base64")].partition("+")[0], base64.b64decode(
            data, validate=True
        )
    except binascii.Error as error:
        raise ValueError(f"an image of the prompt is not valid base64: {error}") from None


async def _write(session: HarnessSession, pictures: Sequence[tuple[str, bytes]]) -> tuple[str, ...]:
    """Write images into the box, apart from the files that the agent works on."""
    first = int(session.memory.get("images", 0)) + 1
    session.memory["images"] = first + len(pictures) - 1
    paths = []
    for number, (ending, data) in enumerate(pictures, first):
        path = f"{box_home(session.runtime)}/prompt/image-{number}.{ending}"
        await session.runtime.write(path, data)
        paths.append(path)
    return tuple(paths)
