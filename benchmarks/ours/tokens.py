"""Recorded conversations with tokens, as a token client leaves them."""

from __future__ import annotations

import numpy as np

from benchmarks.data import Turn, conversation
from vfnb.dialects import get
from vfnb.trace import Delta, MessageGraph, ModelCall, TokenTurn, identity
from vfnb.types import Usage

__all__ = ["record", "turns_of"]


def turns_of(shape: str, count: int) -> list[tuple[Turn, TokenTurn]]:
    """The turns with their tokens as typed arrays."""
    result = []
    for turn in conversation(shape, count):
        content = np.zeros(len(turn.prompt_ids) + len(turn.completion_ids), np.bool_)
        for start, end in turn.spans:
            content[start:end] = True
        tokens = TokenTurn(
            prompt_ids=np.asarray(turn.prompt_ids, np.int32),
            completion_ids=np.asarray(turn.completion_ids, np.int32),
            logprobs=np.asarray(turn.logprobs, np.float32),
            spans=turn.spans,
            content_mask=content,
        )
        result.append((turn, tokens))
    return result


def record(graph: MessageGraph, turn: Turn, tokens: TokenTurn) -> Delta:
    """Commit one turn."""
    messages, _ = get("chat").parse_request({"messages": turn.messages})
    items = [(message, identity(message)) for message in messages]
    parent, known = graph.walk(-1, items)
    reply = get("chat").read_response(turn.answer()).message
    usage = Usage(prompt_tokens=len(turn.prompt_ids), completion_tokens=len(turn.completion_ids))
    call = ModelCall(
        dialect="chat", model="mock", usage=usage, finish_reason="tool_calls", start=1.0, end=2.0
    )
    return graph.commit(call, parent=parent, new=items[known:], reply=reply, tokens=tokens)
