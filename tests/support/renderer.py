"""A small deterministic tokenizer: every message is a header, its characters and an end, as in a chat template."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vfnb.trace import TokenTurn
from vfnb.types import Message

__all__ = ["completion", "render", "turn"]

ROLES = {"system": 1, "user": 2, "assistant": 3, "tool": 4}
END = 9


def completion(text: str, salt: int = 0) -> list[int]:
    """The sampled ids of a reply; `salt` gives another way to write the same text."""
    return [1000 + 7 * salt + ord(letter) for letter in text] + [END]


def render(messages: Sequence[Message]) -> tuple[list[int], list[tuple[int, int]], list[bool]]:
    """Prompt ids with the generation prompt, one span per message, content mask."""
    ids: list[int] = []
    spans = []
    content: list[bool] = []
    for message in messages:
        begin = len(ids)
        body = completion(message.text)
        ids += [ROLES[message.role], *body]
        content += [False] + [True] * (len(body) - 1) + [False]
        spans.append((begin, len(ids)))
    return [*ids, ROLES["assistant"]], spans, [*content, False]


def turn(messages: Sequence[Message], reply: str, *, salt: int = 0, experts: bool = False) -> TokenTurn:
    """The whole prompt rendered anew, and a completion."""
    ids, spans, content = render(messages)
    sampled = completion(reply, salt)
    logprobs = [-0.001 * (index + 1) * (salt + 1) / 3 for index in range(len(sampled))]
    rows = len(ids) + len(sampled) - 1
    routed = np.arange(rows * 2, dtype=np.uint8).reshape(rows, 1, 2) if experts else None
    return TokenTurn(
        ids, sampled, logprobs, spans, content_mask=content + [True] * len(sampled), routed_experts=routed
    )
