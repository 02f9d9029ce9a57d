"""How a loop in this process runs the tools that the model calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vfnb.agents import HarnessSession
from vfnb.types import TextContentPart, Tool, ToolCall, ToolMessage
from vfnb_harnesses.loop_program.words import arguments, bounded, check

__all__ = ["LocalTool", "Toolbox"]


@dataclass(frozen=True, slots=True)
class LocalTool:
    """A tool of the harness itself. `run` gets checked arguments and raises ValueError for the model to read."""

    tool: Tool
    run: Callable[[dict[str, Any]], Awaitable[str]]


class Toolbox:
    """The harness's own tools and those of the task.

    Args:
        session: where the task's tools are called.
        local: the harness's own; they win over tools of the same name.
        limit: characters of a result.
        seconds: longest call of a tool of the task.
    """

    def __init__(
        self, session: HarnessSession, local: Sequence[LocalTool], *, limit: int, seconds: float
    ) -> None:
        self._session = session
        self._local = {entry.tool.name: entry for entry in local}
        self._limit, self._seconds = limit, seconds
        self.tools = [entry.tool for entry in local]
        """What the model is offered."""
        self.tools += [tool for tool in session.tools if tool.name not in self._local]
        self._turn = asyncio.Lock()
        self._names = {tool.name for tool in self.tools}

    async def results(self, calls: Sequence[ToolCall]) -> list[ToolMessage]:
        """The results of all calls, in their order.

        Tools of the task run at the same time. The harness's own run one after another, in the order of the calls:
        they share a folder, and a model that writes a file and runs it means it in that order.
        """
        if len(calls) == 1:
            return [await self._result(calls[0])]
        try:
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(self._result(call)) for call in calls]
        except ExceptionGroup as several:
            raise several.exceptions[0] from None
        return [task.result() for task in running]

    async def _result(self, call: ToolCall) -> ToolMessage:
        if call.name in self._local:
            async with self._turn:  # first come, first served
                return await self._checked(call)
        return await self._checked(call)

    async def _checked(self, call: ToolCall) -> ToolMessage:
        instead = await self._session.check_tool(call)
        if instead is not None:
            return instead
        try:
            return await self._run(call)
        except ValueError as error:
            return ToolMessage(tool_call_id=call.id, content=f"Error: {error}", is_error=True)

    async def _run(self, call: ToolCall) -> ToolMessage:
        if call.name not in self._names:
            raise ValueError(f"there is no tool {call.name!r}; there are {', '.join(sorted(self._names))}")
        values = arguments(call.arguments)
        if call.name in self._local:
            entry = self._local[call.name]
            check(entry.tool.parameters, values)
            return ToolMessage(tool_call_id=call.id, content=await entry.run(values))
        try:
            async with asyncio.timeout(self._seconds) as clock:
                message = await self._session.call_tool(call)
        except TimeoutError:
            if not clock.expired():
                raise
            raise ValueError(f"{call.name} gave no result within {self._seconds:g} s") from None
        return self._bounded(message)

    def _bounded(self, message: ToolMessage) -> ToolMessage:
        content = message.content
        if isinstance(content, str):
            short: Any = bounded(content, self._limit)
        else:
            short = [
                part.model_copy(update={"text": bounded(part.text, self._limit)})
                if isinstance(part, TextContentPart)
                else part
                for part in content
            ]
        return message if short == content else message.model_copy(update={"content": short})
