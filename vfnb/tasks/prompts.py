"""A prompt as one text, for programs that take no messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vfnb.errors import ConfigError
from vfnb.types import SystemMessage, TextContentPart, UserMessage, resolve_messages

if TYPE_CHECKING:
    from vfnb.tasks.data import TaskData
    from vfnb.types import Message

__all__ = ["resolve_text_prompt"]


def resolve_text_prompt(data: TaskData) -> str:
    """The prompt as one text, or an error if anything in it would be lost.

    Harnesses that hand a program one text call it in `check_task`, so that a task with images fails before any
    model call instead of being solved blind. System and user messages become paragraphs; `data.system_prompt` is
    not in it.

    Raises:
        ConfigError: the prompt has images, files, audio or other parts that are no text, turns of an assistant or a
            tool, or it is None.
    """
    where = f"task {data.idx if data.idx is not None else data.name or data.id or ''}".rstrip()
    if data.prompt is None:
        raise ConfigError(f"{where} has no prompt; set TaskData.prompt")
    for position, message in enumerate(resolve_messages(data.prompt)):
        lost = _lost(message)
        if lost:
            raise ConfigError(
                f"{where}: prompt[{position}] has {lost}, which would be lost: this harness gives the program one "
                "text. Use a harness that forwards messages, such as 'null', or {messages_file} with 'program'"
            )
    return data.prompt_text


def _lost(message: Message) -> str:
    """What flattening would lose of a message; `""` if nothing."""
    if not isinstance(message, SystemMessage | UserMessage):
        return f"a turn of the role {message.role!r}"
    if isinstance(message.content, str):
        return ""
    kinds = {part.type for part in message.content if not isinstance(part, TextContentPart)}
    return f"parts of type {', '.join(sorted(kinds))}" if kinds else ""
