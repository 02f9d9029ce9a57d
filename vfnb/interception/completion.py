"""The answer to a direct call, as a harness function sees it."""

from __future__ import annotations

from dataclasses import dataclass

from vfnb.types import AssistantMessage, Messages, Response, ToolCall, Usage

__all__ = ["Completion"]


@dataclass(slots=True, frozen=True)
class Completion:
    """One answer. `[*completion.messages, UserMessage(...)]` continues the conversation."""

    messages: Messages
    """The prompt and the answer."""
    response: Response

    @property
    def message(self) -> AssistantMessage:
        """The answer."""
        return self.response.message

    @property
    def text(self) -> str:
        """The answer's text."""
        return self.response.message.text

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tools that the model asked for."""
        return self.response.message.tool_calls

    @property
    def usage(self) -> Usage | None:
        """Tokens and cost, None if the model did not say."""
        return self.response.usage
