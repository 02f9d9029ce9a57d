"""What a program may send instead of a request: a refusal that it can read, and the rollout goes on."""

from __future__ import annotations

import asyncio
import json

import pytest
from support.rollouts import MESSAGES, Served, body, client, served

from vfnb.clients import Scripted

DEEP = b"[" * 200_000 + b"]" * 200_000
TEXT = json.dumps(MESSAGES).encode()
BODIES = {
    "deep history": b'{"model":"m","messages":' + DEEP + b"}",
    "deep field": b'{"model":"m","x":' + DEEP + b',"messages":' + TEXT + b"}",
    "deep message": b'{"model":"m","messages":[{"role":"user","content":"a","x":' + DEEP + b"}]}",
    "no utf-8": b'{"model":"m","messages":[{"role":"user","content":"\xff"}]}',
    "no json": b'{"model":',
    "nan": b'{"model":"m","temperature":NaN,"messages":' + TEXT + b"}",
    "nothing": b"",
    "zeros": b"\0" * 100,
}


def send(rollout: Served, *bodies: bytes) -> list[tuple[int, bytes]]:
    async def main() -> list[tuple[int, bytes]]:
        async with client(rollout) as http:
            answers = []
            for raw in bodies:
                async with http.post(rollout.url, data=raw) as answer:
                    answers.append((answer.status, await answer.read()))
            return answers

    return asyncio.run(main())


@pytest.mark.parametrize("kind", BODIES)
def test_it_is_refused_and_the_next_call_is_served(kind: str) -> None:
    good = json.dumps(body()).encode()
    with served(Scripted(lambda messages: "a")) as rollout:
        answers = send(rollout, good, BODIES[kind], good[:-1] + b', "n": 1}')
        assert [status for status, _ in answers] == [200, 400, 200]
        error = json.loads(answers[1][1])["error"]
        assert error["type"] == "invalid_request_error"
        assert rollout.session.fault is None
        assert [call.error.type if call.error else None for call in rollout.trace.calls][1] == "RequestError"
        assert rollout.trace.num_turns == 2


@pytest.mark.parametrize("depth", [50, 300, 900])
def test_nesting_that_can_be_read_is_kept_or_refused(depth: int) -> None:
    raw = b'{"model":"m","messages":[{"role":"user","content":"a","x":' + b"[" * depth + b"]" * depth + b"}]}"
    with served(Scripted(lambda messages: "a")) as rollout:
        ((status, _),) = send(rollout, raw)
        assert status in (200, 400)
        assert rollout.session.fault is None
        assert rollout.trace.model_dump_json()


@pytest.mark.parametrize(
    "field", [{"seed": 10**30}, {"temperature": 1e308}, {"stop": "\ud83d"}, {"model": "m\ud83d"}]
)
def test_odd_settings_are_recorded(field: dict[str, object]) -> None:
    with served(Scripted(lambda messages: "a")) as rollout:
        ((status, _),) = send(rollout, json.dumps(body(**field)).encode())
        assert status == 200
        assert rollout.session.fault is None
        assert rollout.trace.model_dump_json()
