"""Tool calls before they run: the task's hooks may give a result in a tool's place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vfnb.errors import HarnessError
from vfnb.trace.calls import Rewrite
from vfnb.trace.identity import content
from vfnb.types import AssistantMessage, ToolCall, ToolMessage

if TYPE_CHECKING:
    from vfnb.interception.session import Session
    from vfnb.trace.graph import MessageGraph

__all__ = ["check_tool"]


async def check_tool(session: Session, call: ToolCall) -> ToolMessage | None:
    """Ask the hooks about a tool call of the model's. Engine loop only.

    Returns:
        The result to use in place of running the tool; None to run it.

    Raises:
        HarnessError: no answer of this rollout has a call with this id, or it is another call.
        Exception: what a hook raised; the rollout has ended by it.
    """
    if not session.hooks.on_tool:
        return None
    index, made = _made(session.graph, call.id)
    if made.name != call.name or made.parsed != call.parsed:
        raise HarnessError(
            f"tool call {call.id!r} is {made.name}({made.arguments}) in the model's answer, not "
            f"{call.name}({call.arguments}); pass the call as it came"
        )
    try:
        blocked = await session.hooks.tool(made, session.trace)
    except Exception as error:
        session.fail(error)
        raise
    if blocked is None:
        return None
    hook, result = blocked
    record = Rewrite(
        hook=hook,
        stage="tool",
        before=json.dumps(made.model_dump()),
        after=content(result)[1].decode(),
    )
    graph = session.graph
    session.store_later(graph.update_call(index, rewrites=[*graph.calls[index].rewrites, record]))
    return result


def _made(graph: MessageGraph, wanted: str) -> tuple[int, ToolCall]:
    """The newest call with this id in an answer that the program got, and the model call that it came with."""
    for index in range(len(graph.calls) - 1, -1, -1):
        model_call = graph.calls[index]
        if model_call.reply_node is None or model_call.shown_node is not None:
            continue
        message = graph.nodes[model_call.reply_node].message
        if isinstance(message, AssistantMessage):
            for made in message.tool_calls:
                if made.id == wanted:
                    return index, made
    raise HarnessError(
        f"no answer of the model has a tool call with the id {wanted!r}; pass the call as it came"
    )
