"""The tokens that a request's history has already: where a token client goes on from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vfnb.trace.graph import MessageGraph

__all__ = ["TokenHistory", "token_history"]


@dataclass(slots=True, frozen=True)
class TokenHistory:
    """Prompt and completion of the newest sampled message of a history."""

    ids: NDArray[np.int32]
    """int32[n]: all tokens through that message."""
    prompt_length: int
    """How many of them were its prompt."""
    messages: int
    """How many leading messages of the history they hold."""
    media: tuple[tuple[int, int, int], ...] = ()
    """Images and the like among them: `[begin, end)` and token type."""


def token_history(graph: MessageGraph, node: int, tools: str | None) -> TokenHistory | None:
    """What is known of the tokens up to a node.

    Args:
        node: the last known prompt message.
        tools: digest of the tools that the request offers; tokens of another offer are of no use.

    Returns:
        None if no message of the history was sampled with tokens.
    """
    nodes = graph.nodes
    while node >= 0 and not (nodes[node].sampled and nodes[node].has_tokens):
        node = nodes[node].parent
    if node < 0 or graph.columns is None:
        return None
    reply = nodes[node]
    if graph.calls[reply.call].tools != tools:
        return None
    import numpy as np

    pieces = []
    media: list[tuple[int, int, int]] = []
    index = node
    while index >= 0:
        if nodes[index].has_tokens:
            pieces.append(graph.columns.ids[nodes[index].start : nodes[index].end])
            media[:0] = graph.media(index)
        index = nodes[index].parent
    ids = pieces[0] if len(pieces) == 1 else np.concatenate(pieces[::-1])
    prompt_length = reply.total - (reply.end - reply.start) + reply.lead
    return TokenHistory(ids, prompt_length, reply.depth + 1, tuple(media))
