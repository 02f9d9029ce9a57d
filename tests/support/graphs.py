"""Drive a message graph as a session does: walk the history that is sent, commit what is new."""

from __future__ import annotations

from typing import Any

from vfnb.trace import Delta, MessageGraph, ModelCall, Trace, identity, trace_from_records
from vfnb.types import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, Usage, UserMessage

__all__ = ["Recorder", "assistant", "shape", "system", "tool", "user"]


def system(text: str = "You are helpful.") -> SystemMessage:
    return SystemMessage(content=text)


def user(text: str) -> UserMessage:
    return UserMessage(content=text)


def assistant(
    text: str | None = None, *calls: tuple[str, str, str], reasoning: str | None = None
) -> AssistantMessage:
    """Calls are (id, name, arguments)."""
    made = [ToolCall(id=id, name=name, arguments=arguments) for id, name, arguments in calls]
    return AssistantMessage(content=text, tool_calls=made, reasoning_content=reasoning)


def tool(id: str, text: str) -> ToolMessage:
    return ToolMessage(tool_call_id=id, content=text)


def shape(graph: MessageGraph) -> tuple[int, int, int, int]:
    """Nodes, sampled nodes, leaves, roots."""
    return len(graph.nodes), sum(1 for _ in graph.sampled()), len(graph.leaves), len(graph.roots)


class Recorder:
    """A trace and everything that a store would have kept of it."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.graph = self.trace.dag
        self.deltas: list[Delta] = []
        self.clock = 1000.0

    def call(
        self,
        messages: list[Message],
        reply: AssistantMessage | None,
        *,
        partial: bool = False,
        tokens: Any = None,
        tools: list[dict[str, Any]] | None = None,
        **fields: Any,
    ) -> ModelCall:
        """One call with its whole history, as a program sends it."""
        items = [(message, identity(message)) for message in messages]
        parent, known = self.graph.walk(-1, items)
        fields.setdefault(
            "usage", None if reply is None or tokens else Usage(prompt_tokens=10, completion_tokens=2)
        )
        call = ModelCall(
            start=self.clock,
            end=self.clock + 1,
            tools=self.graph.add_tools(tools or []),
            dialect="chat",
            **fields,
        )
        self.clock += 2
        self.deltas.append(
            self.graph.commit(
                call, parent=parent, new=items[known:], reply=reply, partial=partial, tokens=tokens
            )
        )
        return call

    @property
    def causes(self) -> list[str | None]:
        """By branch: None for the first, else the cause with its detail."""
        found = []
        for branch in self.trace.branches:
            why = branch.cause
            found.append(None if why is None else f"{why.cause}/{why.detail}".rstrip("/"))
        return found

    def reload(self) -> Trace:
        """The trace made again from the deltas."""
        return trace_from_records(
            self.trace.header(),
            [node for delta in self.deltas for node in delta.nodes],
            {key: raw for delta in self.deltas for key, raw in delta.contents},
            [delta.call for delta in self.deltas],
            [record for delta in self.deltas for record in delta.tokens],
            {key: raw for delta in self.deltas for key, raw in delta.tools},
        )
