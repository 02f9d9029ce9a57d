"""The plainest agent: it sends the prompt and takes the reply as the answer.

In process it costs one call. In a runtime that runs programs, the same thing happens in a small program that
imports no SDK, which shows what the road through a real process costs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, ClassVar

from vfnb.agents import Harness, HarnessConfig, HarnessSession
from vfnb.runtimes import ProgramResult
from vfnb.tasks import Task
from vfnb.types import Messages, SystemMessage, resolve_messages

__all__ = ["NullConfig", "NullHarness", "opening"]

PROGRAM = Path(__file__).with_name("null_program.py")


class NullConfig(HarnessConfig):
    """Settings of the null harness: none of its own."""


def opening(task: Task[Any, Any, Any]) -> Messages:
    """The messages that open the conversation: the task's system prompt, then its prompt."""
    messages = resolve_messages(task.data.prompt)
    if task.data.system_prompt:
        messages.insert(0, SystemMessage(content=task.data.system_prompt))
    return messages


class NullHarness(Harness[NullConfig]):
    """One call, no tools."""

    NAME: ClassVar[str] = "null"

    async def run(self, session: HarnessSession, task: Task[Any, Any, Any]) -> ProgramResult | None:
        messages = opening(task)
        if session.runtime.type == "inprocess":
            await session.complete(messages)
            return None
        request = {
            "model": session.model,
            "messages": [m.model_dump(mode="json", exclude_none=True) for m in messages],
        }
        await session.runtime.write("request.json", json.dumps(request).encode())
        argv = [sys.executable, "-I", "-S", str(PROGRAM), "request.json"]
        env = {"OPENAI_BASE_URL": session.base_url, "OPENAI_API_KEY": session.api_key}
        return await session.runtime.run(argv, env)
