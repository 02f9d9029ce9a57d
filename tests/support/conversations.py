"""Long agent conversations with tokens: real, non-repeating text (the standard library), words hashed to ids."""

from __future__ import annotations

import json
import os
import random
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from vfnb.trace import Delta, MessageGraph, ModelCall, TokenTurn, identity
from vfnb.types import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage

__all__ = ["Line", "Turn", "compaction", "linear", "record", "subagents"]

_PIECE = re.compile(r" ?[A-Za-z_]+| ?\d{1,3}| ?[^\sA-Za-z_\d]+|\s+")
_VOCABULARY = 151_643


@cache
def _corpus() -> list[str]:
    root = Path(os.__file__).parent
    files = sorted(root.glob("*.py"))[:140]
    return _PIECE.findall("\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files))


@dataclass
class Turn:
    """One call: the messages that are new since the line's last call, its reply, and the call's tokens."""

    line: Line
    new: list[Message]
    reply: AssistantMessage
    tokens: TokenTurn


class Line:
    """One growing history; `tip` is its last node once recorded."""

    def __init__(self, rng: random.Random, start: list[tuple[Message, list[str]]], at: list[int]) -> None:
        self.rng, self.fresh, self.at = rng, start, at
        self.size, self.tip = 0, -1

    def take(self, count: int) -> list[str]:
        pieces = _corpus()
        self.at[0] = (self.at[0] + count) % (len(pieces) - 2000)
        return pieces[self.at[0] : self.at[0] + count]

    def turn(self) -> Turn:
        start = self.size
        prompt: list[int] = []
        content: list[bool] = []
        spans = []
        for _, pieces in self.fresh:
            begin = self.size + len(prompt)
            prompt += [1, 1, 1, *_ids(pieces), 2, 2]
            content += [False] * 3 + [True] * len(pieces) + [False] * 2
            spans.append((begin, self.size + len(prompt)))
        prompt += [1, 77091, 198]
        said, command = self.take(384), self.take(128)
        id = f"call_{self.rng.getrandbits(64):016x}"
        arguments = json.dumps({"command": "".join(command)})
        reply = AssistantMessage(
            content="".join(said), tool_calls=[ToolCall(id=id, name="bash", arguments=arguments)]
        )
        completion = [*_ids(said), *_ids(command), 2]
        content += [False] * 3 + [True] * len(completion)
        logprobs = [-self.rng.expovariate(2.0) for _ in completion]
        tokens = TokenTurn(prompt, completion, logprobs, spans, start=start, content_mask=content)
        turn = Turn(self, [message for message, _ in self.fresh], reply, tokens)
        self.size += len(prompt) + len(completion)
        out = self.take(512)
        self.fresh = [(ToolMessage(tool_call_id=id, content="".join(out)), out)]
        return turn


def _ids(pieces: list[str]) -> list[int]:
    return [zlib.crc32(piece.encode()) % _VOCABULARY for piece in pieces]


def _line(rng: random.Random, at: list[int], first: Line | None = None) -> Line:
    line = Line(rng, [], at)
    task, rules = line.take(256), line.take(256)
    head = first.fresh[0] if first is not None else (SystemMessage(content="".join(rules)), rules)
    line.fresh = [head, (UserMessage(content="".join(task)), task)]
    return line


def linear(turns: int, seed: int = 0) -> Iterator[Turn]:
    """One conversation of about 1 k tokens a turn."""
    line = _line(random.Random(seed), [seed * 7919])
    for _ in range(turns):
        yield line.turn()


def compaction(turns: int, every: int = 20, seed: int = 1) -> Iterator[Turn]:
    """A new history below the same system message every `every` turns."""
    rng, at = random.Random(seed), [seed * 7919]
    head = line = _line(rng, at)
    head.fresh = list(head.fresh)
    keep = Line(rng, list(head.fresh), at)
    for index in range(turns):
        if index and index % every == 0:
            line = _line(rng, at, keep)
        yield line.turn()


def subagents(turns: int, count: int = 8, seed: int = 2) -> Iterator[Turn]:
    """A main agent and `count` subagents with one system message, interleaved."""
    rng, at = random.Random(seed), [seed * 7919]
    main, shared = _line(rng, at), _line(rng, at)
    lines = [main, *(_line(rng, at, shared) for _ in range(count))]
    for index in range(turns):
        yield lines[index % len(lines)].turn()


def record(graph: MessageGraph, turn: Turn) -> Delta:
    """Commit a turn: walk its new messages from the line's tip, as a session that knows the prefix does."""
    items = [(message, identity(message)) for message in turn.new]
    parent, known = graph.walk(turn.line.tip, items)
    tokens = turn.tokens
    if known:  # the shared system message: its tokens are there already
        done = graph.nodes[parent].total
        tokens.prompt_ids = np.asarray(tokens.prompt_ids[done - tokens.start :], np.int32)
        if tokens.content_mask is not None:
            tokens.content_mask = tokens.content_mask[done - tokens.start :]
        tokens.start, tokens.spans = done, tokens.spans[known:]
    call = ModelCall(
        id=f"chatcmpl-{len(graph.calls):012x}",
        dialect="chat",
        model="m",
        served_model="m",
        start=1.8e9 + len(graph.calls),
        first_token=1.8e9 + len(graph.calls) + 0.1,
        end=1.8e9 + len(graph.calls) + 0.5,
        finish_reason="tool_calls",
        digest=f"{len(graph.calls):032x}",
        sampling_sent={"temperature": 1.0},
    )
    delta = graph.commit(call, parent=parent, new=items[known:], reply=turn.reply, tokens=tokens)
    assert call.reply_node is not None
    turn.line.tip = call.reply_node
    return delta
