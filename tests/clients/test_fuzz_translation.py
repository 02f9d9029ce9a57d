"""Broken requests on their way to another dialect: each is carried or refused, and the server can read it."""

from __future__ import annotations

import itertools

import pytest
from support import chat_bodies, gemini_bodies, messages_bodies, responses_bodies
from support.fuzz import mutant

from vfnb.clients.base import ModelRequest
from vfnb.clients.translated import Translator
from vfnb.dialects import RequestError, Splitter, get

BODIES = {
    "chat": chat_bodies.BODIES,
    "responses": responses_bodies.BODIES,
    "messages": messages_bodies.BODIES,
    "gemini": gemini_bodies.BODIES,
}


def carried(program: str, upstream: str, raw: bytes) -> bool:
    """Whether a request is carried; it may be refused, and nothing else."""
    dialect, other = get(program), get(upstream)
    try:
        split = Splitter(dialect).split(raw)
        dialect.check(split)
        messages, tools = dialect.read(split), dialect.read_tools(split)
    except (RequestError, RecursionError, ValueError):
        return False  # no request that a session would let through
    request = ModelRequest(
        dialect=dialect, body=raw, split=split, messages=lambda: messages, tools=tools, stream=True
    )
    try:
        body = Translator(request, other, "served").outgoing.body
    except RequestError:
        return False
    again = Splitter(other).split(body)
    other.read(again)
    other.read_tools(again)
    return True


@pytest.mark.parametrize(("program", "upstream"), list(itertools.permutations(BODIES, 2)))
def test_broken_requests_are_carried_or_refused(program: str, upstream: str) -> None:
    raws = (mutant(BODIES[program], number) for number in range(250))
    assert sum(carried(program, upstream, raw) for raw in raws) > 25
