"""Made-up agent conversations with real text: the source of the standard library, one token per word or sign.

The same on every machine with the same Python. `linear` is one growing history of about 1,000 tokens a
turn, `compaction` starts a new, short history every 20 turns, `branches` does so every turn, `subagents`
interleaves a main agent with 8 others.
"""

from __future__ import annotations

import json
import random
import re
import sysconfig
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.forms import FORMS, Form

__all__ = ["SHAPES", "Turn", "conversation"]

PIECE = re.compile(r" ?[A-Za-z_]+| ?\d{1,3}| ?[^\sA-Za-z_\d]+|\s+")
VOCABULARY = 151_643
LEAD, TRAIL = 3, 2  # template tokens before and after a message
GENERATION = [1, 77091, 198]  # the start of an assistant message
SYSTEM_TOKENS, USER_TOKENS, REPLY_TOKENS, ARGUMENT_TOKENS, TOOL_TOKENS = 256, 256, 384, 128, 512
COMPACT_EVERY, SUBAGENTS = 20, 8


@dataclass
class Turn:
    """One call of a program: the whole history in, one reply out."""

    messages: list[dict[str, Any]]
    reply: dict[str, Any]
    known: int
    """How many leading messages the same history had in the turn before, reply included."""
    prompt_ids: list[int]
    spans: list[tuple[int, int]]
    """Token ranges of `messages[known:]`."""
    completion_ids: list[int]
    logprobs: list[float]

    def body(self, form: Form = FORMS["chat"]) -> bytes:
        """The request as a program sends it."""
        return form.request(self.messages)

    def answer(self, form: Form = FORMS["chat"]) -> bytes:
        """The upstream's reply."""
        return form.reply(self.reply, (len(self.prompt_ids), len(self.completion_ids)))


@cache
def _pieces() -> list[str]:
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:140]
    return PIECE.findall("\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files))


class Source:
    """Pieces of text in order, round and round."""

    def __init__(self, seed: int) -> None:
        self.pieces = _pieces()
        self.at = seed * 7919 % len(self.pieces)
        self.random = random.Random(seed)

    def take(self, count: int) -> list[str]:
        if self.at + count > len(self.pieces):
            self.at = 0
        self.at += count
        return self.pieces[self.at - count : self.at]


@dataclass
class History:
    """One context as a program keeps it."""

    source: Source
    messages: list[dict[str, Any]] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    fresh: list[tuple[dict[str, Any], list[str]]] = field(default_factory=list)

    def add(self, pieces: list[str], **message: Any) -> None:
        self.fresh.append((message | {"content": "".join(pieces)}, pieces))

    def turn(self) -> Turn:
        """Send everything, get a reply with a tool call, run the tool."""
        known = len(self.messages)
        spans = []
        for message, pieces in self.fresh:
            start = len(self.ids)
            self.ids += [1] * LEAD + _ids(pieces) + [2] * TRAIL
            spans.append((start, len(self.ids)))
            self.messages.append(message)
        self.ids += GENERATION
        text, arguments = self.source.take(REPLY_TOKENS), self.source.take(ARGUMENT_TOKENS)
        random = self.source.random
        call = f"call_{random.getrandbits(64):016x}"
        function = {"name": "bash", "arguments": json.dumps({"command": "".join(arguments)})}
        reply = {
            "role": "assistant",
            "content": "".join(text),
            "tool_calls": [{"id": call, "type": "function", "function": function}],
        }
        completion = [*_ids(text), *_ids(arguments), 2]
        logprobs = [-random.expovariate(2.0) for _ in completion]
        turn = Turn(list(self.messages), reply, known, list(self.ids), spans, completion, logprobs)
        self.ids += completion
        self.messages.append(reply)
        self.fresh = []
        self.add(self.source.take(TOOL_TOKENS), role="tool", tool_call_id=call)
        return turn


def _ids(pieces: list[str]) -> list[int]:
    return [zlib.crc32(piece.encode()) % VOCABULARY for piece in pieces]


def _start(source: Source, system: list[str], user_tokens: int = USER_TOKENS) -> History:
    history = History(source)
    history.add(system, role="system")
    history.add(source.take(user_tokens), role="user")
    return history


def _linear(count: int, source: Source) -> Iterator[Turn]:
    history = _start(source, source.take(SYSTEM_TOKENS))
    for _ in range(count):
        yield history.turn()


def _compaction(count: int, source: Source, every: int = COMPACT_EVERY) -> Iterator[Turn]:
    system = source.take(SYSTEM_TOKENS)
    history = _start(source, system)
    for index in range(count):
        if index and index % every == 0:
            history = _start(source, system, 2 * USER_TOKENS)
        yield history.turn()


def _branches(count: int, source: Source) -> Iterator[Turn]:
    return _compaction(count, source, every=1)


def _subagents(count: int, source: Source) -> Iterator[Turn]:
    main = _start(source, source.take(SYSTEM_TOKENS))
    system = source.take(SYSTEM_TOKENS)
    histories = [main, *(_start(source, system) for _ in range(SUBAGENTS))]
    for index in range(count):
        yield histories[index % len(histories)].turn()


SHAPES = {"linear": _linear, "compaction": _compaction, "branches": _branches, "subagents": _subagents}


def conversation(shape: str, count: int, seed: int = 0) -> Iterator[Turn]:
    """`count` turns of one rollout, made as they are asked for: all of them at once take a gigabyte."""
    return SHAPES[shape](count, Source(seed))
