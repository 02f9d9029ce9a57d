"""Recorded conversations with tokens, as a token client leaves them."""

from __future__ import annotations

import numpy as np

from benchmarks.data import Turn, conversation
from vfnb.dialects import get
from vfnb.trace import Delta, MessageGraph, ModelCall, TokenTurn, identity
from vfnb.types import Usage

__all__ = ["record"]


def record(graph: MessageGraph, shape: str, count: int, seed: int = 0) -> list[Delta]:
    """Commit every turn of a conversation; returns what each added."""
    chat = get("chat")
    replies: dict[int, int] = {}
    deltas = []
    for turn in conversation(shape, count, seed):
        messages, _ = chat.parse_request({"messages": turn.messages[turn.known :]})
        items = [(message, identity(message)) for message in messages]
        if turn.known:
            parent, known = replies[id(turn.messages[turn.known - 1])], 0
        else:
            parent, known = graph.walk(-1, items)
        reply = chat.read_response(turn.answer()).message
        usage = Usage(prompt_tokens=len(turn.prompt_ids), completion_tokens=len(turn.completion_ids))
        call = ModelCall(dialect="chat", model="mock", usage=usage, finish_reason="tool_calls")
        call.start, call.end = 1.0, 2.0
        delta = graph.commit(call, parent=parent, new=items[known:], reply=reply, tokens=tokens_of(turn))
        deltas.append(delta)
        assert call.reply_node is not None
        replies[id(turn.reply)] = call.reply_node
    return deltas


def tokens_of(turn: Turn) -> TokenTurn:
    """Typed arrays of what is new, as a token client gives them."""
    known = turn.spans[0][0] if turn.known else 0
    prompt = np.asarray(turn.prompt_ids[known:], np.int32)
    content = np.zeros(len(prompt) + len(turn.completion_ids), np.bool_)
    for start, end in turn.spans:
        content[start - known : end - known] = True
    return TokenTurn(
        prompt_ids=prompt,
        completion_ids=np.asarray(turn.completion_ids, np.int32),
        logprobs=np.asarray(turn.logprobs, np.float32),
        spans=turn.spans,
        start=known,
        content_mask=content,
    )
