"""Settings that all tool loops have, and how they open a conversation."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from vfnb.agents import HarnessConfig
from vfnb.tasks import Task
from vfnb.types import Messages, SystemMessage, resolve_messages

__all__ = ["LoopConfig", "opening"]


class LoopConfig(HarnessConfig):
    """Settings of a tool loop."""

    system_prompt: str = ""
    """Instructions of the harness, put before the task's own."""
    max_turns: int | None = Field(default=None, ge=1)
    """Model calls of one segment (`run`, or one `resume`); then the rollout is stopped as `max_turns`. None leaves
    it to the run's limits."""
    max_output: int = Field(default=30_000, ge=100)
    """Characters that the model gets of one tool result; beyond that its start and its end are kept."""
    tool_timeout: float = Field(default=600.0, gt=0)
    """Seconds for a call of a tool of the task; then the model gets an error."""


def opening(task: Task[Any, Any, Any], system_prompt: str = "") -> Messages:
    """The messages that open the conversation: the harness's and the task's system prompt, then the prompt."""
    messages = resolve_messages(task.data.prompt)
    instructions = "\n\n".join(text for text in (system_prompt, task.data.system_prompt) if text)
    if instructions:
        messages.insert(0, SystemMessage(content=instructions))
    return messages
