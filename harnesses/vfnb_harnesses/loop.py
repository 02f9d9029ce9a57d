"""The tool loop in this process: ask, run the tools that were called, until there is an answer without a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vfnb.agents import HarnessSession
from vfnb.errors import ContextLengthError
from vfnb.interception import Completion, SessionStopped
from vfnb.types import AssistantMessage, Messages, UserMessage
from vfnb_harnesses.loop_program.words import SUMMARISE, resumed, unseen
from vfnb_harnesses.settings import LoopConfig
from vfnb_harnesses.tools import LocalTool, Toolbox

__all__ = ["ToolLoop"]


class ToolLoop:
    """One segment of a conversation, kept in `session.conversation`. `loop_program` does the same as a program.

    Args:
        session: the rollout.
        config: bounds.
        local: the harness's own tools.
        kept: the messages that stay when the conversation is cut.
        compact_at: prompt tokens above which it is cut; 0 cuts only when the context is exceeded, None never.
    """

    def __init__(
        self,
        session: HarnessSession,
        config: LoopConfig,
        *,
        local: Sequence[LocalTool] = (),
        kept: Messages | None = None,
        compact_at: int | None = None,
    ) -> None:
        self.session = session
        self.config = config
        self.kept = kept or []
        self.compact_at = compact_at
        self.turns = 0
        """Model calls so far."""
        self._box = Toolbox(session, local, limit=config.max_output, seconds=config.tool_timeout)

    async def run(self, history: Messages) -> None:
        """Go on from a history until the model answers without a tool call, or the rollout is stopped.

        Raises:
            vfnb.errors.ModelError: the upstream gave no answer; ContextLengthError if cutting did not help.
        """
        self.session.conversation = history
        try:
            await self._converse()
        except SessionStopped:
            return  # the rollout knows why

    async def _converse(self) -> None:
        session = self.session
        fresh = False  # nothing was asked since the last compaction
        while self.config.max_turns is None or self.turns < self.config.max_turns:
            try:
                reply = await self._ask(session.conversation)
            except ContextLengthError:
                if fresh or self.compact_at is None or not await self._compact(overflow=True):
                    raise
                fresh = True
                continue
            session.conversation.append(reply.message)
            if not reply.tool_calls or not self._box.tools:
                return
            session.conversation += await self._box.results(reply.tool_calls)
            used = reply.usage.prompt_tokens if reply.usage is not None else 0
            if not self.compact_at or used <= self.compact_at:
                fresh = False
            elif fresh or not await self._compact():
                self.compact_at, fresh = 0, False  # it does not help, and would be tried each turn
            else:
                fresh = True
        session.stop("max_turns")

    async def _ask(self, history: Messages, **more: Any) -> Completion:
        reply = await self.session.complete(history, self._box.tools, **more)
        self.turns += 1
        return reply

    # compaction

    async def _compact(self, *, overflow: bool = False) -> bool:
        """Put the model's own summary in the place of the history; False if there is none to be had."""
        history = self.session.conversation
        tries: list[tuple[Messages, str]] = [(history, "")]
        newest = max((i for i, entry in enumerate(history) if entry.role == "assistant"), default=0)
        if newest >= len(self.kept):
            note = unseen(_steps(history[newest:]), self.config.max_output // 8)
            tries.append((history[:newest], note))
        more: dict[str, Any] = {"markers": {"kind": "compaction"}}
        if self._box.tools:
            more["tool_choice"] = "none"
        for shown, note in tries[1:] if overflow else tries:
            try:
                reply = await self._ask([*shown, UserMessage(content=SUMMARISE + note)], **more)
            except ContextLengthError:
                continue
            text = reply.text.strip()
            self.session.log(f"compaction after {self.turns} calls: a summary of {len(text)} characters")
            if text:
                self.session.conversation = [*self.kept, UserMessage(content=resumed(text))]
            return bool(text)
        return False


def _steps(turn: Messages) -> list[tuple[str, str, str]]:
    """The calls of an assistant message with their results."""
    first = turn[0]
    calls = first.tool_calls if isinstance(first, AssistantMessage) else []
    return [(call.name, call.arguments, result.text) for call, result in zip(calls, turn[1:], strict=False)]
