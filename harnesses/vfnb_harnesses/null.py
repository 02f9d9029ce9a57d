"""The plainest agent: it sends the prompt, runs the tools that the model calls, and takes the reply as the answer.

In process a task without tools costs one call. In a runtime that runs programs, the same thing happens in a small
program that imports no SDK, which shows what the road through a real process costs.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar

from vfnb.agents import Harness, HarnessSession
from vfnb.dialects import chat_encode
from vfnb.errors import HarnessError
from vfnb.runtimes import ProgramResult
from vfnb.tasks import Task
from vfnb.types import Messages
from vfnb_harnesses.launch import HERE, launch, loop_request, run_loop
from vfnb_harnesses.loop import ToolLoop
from vfnb_harnesses.settings import LoopConfig, opening

__all__ = ["NullConfig", "NullHarness"]


class NullConfig(LoopConfig):
    """Settings of the null harness: those of any tool loop."""


class NullHarness(Harness[NullConfig]):
    """A plain loop over Chat Completions with the tools of the task, and none of its own."""

    NAME: ClassVar[str] = "null"
    TESTED: ClassVar[bool] = True
    DIALECTS: ClassVar[tuple[str, ...]] = ("chat",)
    IMAGES: ClassVar[bool] = True
    SUPPORTS_MCP: ClassVar[bool] = True
    SUPPORTS_RESUME: ClassVar[bool] = True

    async def run(self, session: HarnessSession, task: Task[Any, Any, Any]) -> ProgramResult | None:
        return await self._segment(session, opening(task, self.config.system_prompt))

    async def resume(
        self, session: HarnessSession, task: Task[Any, Any, Any], messages: Messages
    ) -> ProgramResult | None:
        if not session.conversation or not messages:
            raise HarnessError(
                "resume() needs a conversation that `run` has left, and a message to go on with"
            )
        return await self._segment(session, [*session.conversation, *messages])

    async def _segment(self, session: HarnessSession, history: Messages) -> ProgramResult | None:
        if session.runtime.type == "inprocess":
            await ToolLoop(session, self.config).run(history)
            return None
        if session.tools:
            request = loop_request(session, self.config, history, tools=session.tools, keep=(0, 0))
            return await run_loop(session, request)
        request = {"model": session.model, "messages": [chat_encode.message(entry) for entry in history]}
        program = str(HERE / "null_program.py")
        result = await launch(session, [sys.executable, "-I", "-S", program], request)
        session.conversation = list(session.trace.messages)
        return result
