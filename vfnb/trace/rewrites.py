"""What intercepts changed, as messages: read from the calls, where it is recorded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vfnb.trace.identity import decode_content
from vfnb.types import Message, ToolCall

if TYPE_CHECKING:
    from vfnb.trace.calls import ModelCall, Rewrite
    from vfnb.trace.graph import MessageGraph

__all__ = ["Rewritten", "rewrites"]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """One message on both sides of an intercept."""

    hook: str
    """Name of the intercept."""
    stage: str
    """`request`, `response` or `tool`."""
    call: int
    """Index of the model call."""
    before: Message | ToolCall
    """As it came: a new message of the harness, the model's answer, or a tool call."""
    after: Message
    """What took its place: for the model, for the harness, or as the result of a tool that did not run."""
    cut: int = 0
    """UTF-8 bytes that were over the limit for rewritten texts and are gone."""


def rewrites(graph: MessageGraph) -> list[Rewritten]:
    """All rewrites of a trace, in the order of its calls."""
    return [_read(graph, call, one) for call in list(graph.calls) for one in call.rewrites]


def _read(graph: MessageGraph, call: ModelCall, one: Rewrite) -> Rewritten:
    before: Message | ToolCall
    if one.stage == "tool":
        before = ToolCall.model_validate(json.loads(one.before))
    else:
        before = decode_content(one.before.encode())
    if one.after is None:
        after = graph.nodes[_node(graph, call, one)].message
    else:
        after = decode_content(one.after.encode())
    return Rewritten(one.hook, one.stage, call.index, before, after, one.cut)


def _node(graph: MessageGraph, call: ModelCall, one: Rewrite) -> int:
    if one.stage == "response":
        assert call.shown_node is not None
        return call.shown_node
    node = call.prompt_node
    for _ in range(one.back):
        node = graph.nodes[node].parent
    return node
