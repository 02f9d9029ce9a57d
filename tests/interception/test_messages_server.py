"""Anthropic Messages through the real server: routes, live streams, pings, cuts, rewrites, counts."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from typing import Any

import aiohttp
import httpx
import pytest
from support.messages_upstream import Blocks, MessagesUpstream, failing, message_events
from support.rollouts import Journal, Served, client, served
from support.upstream import Say

from vfnb.clients import Relay, Scripted
from vfnb.dialects import get
from vfnb.interception import Edit, Hooks, Limits, Settings
from vfnb.trace import Trace
from vfnb.types import AssistantMessage, Request, Response, SamplingConfig

MESSAGES = get("messages")
ASK = [{"role": "user", "content": "hi"}]
MARK = {"type": "ephemeral"}


def body(messages: list[Any] | None = None, **keys: Any) -> dict[str, Any]:
    return {"model": "asked", "max_tokens": 9, "messages": messages or ASK, **keys}


def post(rollout: Served, data: Any, path: str = "/v1/messages", **headers: str) -> httpx.Response:
    with httpx.Client(verify=False, timeout=20) as http:  # no certificates to load
        return http.post(rollout.base_url + path, json=data, headers=rollout.headers | headers)


async def read(rollout: Served, data: Any) -> list[tuple[float, bytes]]:
    """The pieces of a streamed answer and when they came."""
    start = time.perf_counter()
    async with client(rollout) as http, http.post(rollout.base_url + "/v1/messages", json=data) as answer:
        assert answer.status == 200
        return [(time.perf_counter() - start, piece) async for piece in answer.content.iter_any()]


# routes

ROUTES = ["/v1/messages", "/messages", "/v1/v1/messages", "/v1/messages/", "/v1/messages?beta=true"]


def test_every_form_of_route_and_credential() -> None:
    with served(Scripted(["hello"], cycle=True)) as rollout:
        key = rollout.session.key
        with httpx.Client(base_url=rollout.base_url) as http:
            for headers in ({"Authorization": f"Bearer {key}"}, {"x-api-key": key}, {"api-key": key}):
                for route in ROUTES:
                    answer = http.post(route, json=body(), headers=headers)
                    assert answer.status_code == 200 and answer.json()["content"][0]["text"] == "hello"
        assert len(rollout.trace.dag.calls) == 3 * len(ROUTES)


def test_looks_before_the_first_request_are_harmless() -> None:
    with served(Scripted(["hello"])) as rollout:
        url = rollout.base_url
        with httpx.Client(base_url=url, headers=rollout.headers) as http:
            for path in ("/", "/api/hello"):
                assert http.head(path).status_code == http.get(path).status_code == 404
        error = httpx.get(url + "/v1/messages", headers=rollout.headers)
        assert error.status_code == 405 and error.json()["type"] == "error"
        named = {"anthropic-version": "2023-06-01"}
        missing = httpx.post(url + "/v1/nothing", headers=rollout.headers | named, json={})
        assert missing.status_code == 404 and missing.json()["error"]["type"] == "not_found_error"
        assert post(rollout, body()).status_code == 200
        assert len(rollout.trace.dag.calls) == 1 and rollout.session.fault is None


# streams


def test_a_stream_is_live_and_its_end_waits_for_the_journal() -> None:
    journal = Journal(delay=0.3)
    say = Blocks(blocks=[{"type": "text", "text": "words of a stream"}], pace=0.02)
    with MessagesUpstream([say]) as upstream, served(upstream.url, journal=journal) as rollout:
        pieces = asyncio.run(read(rollout, body(stream=True)))
    assert b"".join(piece for _, piece in pieces) == b"".join(message_events(say, "mock"))
    assert pieces[0][1].startswith(b"event: message_start")
    assert pieces[-1][0] - pieces[0][0] > 0.3
    early = b"".join(piece for _, piece in pieces[:-1])
    assert b'stop_reason": "end_turn' not in early and b"message_stop" not in early and b"word" in early


def test_pings_keep_a_waiting_stream_open_and_a_late_error_is_an_event() -> None:
    settings = Settings(keepalive_after=0.1, keepalive_every=0.1)
    slow = [Blocks(delay=0.5), failing(529, "busy")]
    slow[1].delay = 0.5
    with (
        MessagesUpstream(list(slow)) as upstream,
        served(Relay("", base_url=upstream.url, max_retries=0), settings=settings) as rollout,
    ):
        whole, error = (
            b"".join(piece for _, piece in asyncio.run(read(rollout, body(stream=True, top_p=top))))
            for top in (0.1, 0.2)
        )
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    assert whole.startswith(ping) and whole.endswith(b'"message_stop"}\n\n')
    assert error.startswith(ping) and error.count(b"event: error") == 1
    last = json.loads(error.rpartition(b"data: ")[2])
    assert last["error"]["type"] == "overloaded_error" and "busy" in last["error"]["message"]


def test_a_cut_stream_is_recorded_in_part_and_asked_again() -> None:
    script: list[Say | str] = [Blocks(text="Hello there", cut_after=5, pace=0.01), Blocks(text="Hello there")]
    with (
        MessagesUpstream(script) as upstream,
        served(Relay("", base_url=upstream.url, max_retries=0)) as rollout,
    ):
        with pytest.raises(aiohttp.ClientPayloadError):
            asyncio.run(read(rollout, body(stream=True)))
        asyncio.run(read(rollout, body(stream=True)))
        first, second = rollout.trace.dag.calls
        assert first.partial_text and "Hello there".startswith(first.partial_text)
        assert first.error is not None and first.error.type == "UpstreamCut"
        assert second.retry_of == first.index and second.ok
        assert len(rollout.trace.dag.leaves) == 1


# rewrites


class Editor(Hooks):
    """Rewrites new tool results; changes answers."""

    edits_request = True

    def __init__(self, *, answers: bool = False) -> None:
        self.edits_response = answers

    async def edit(self, request: Request, first: int, trace: Trace) -> dict[int, list[Edit]]:
        return {
            position: [Edit("lower", message, message.model_copy(update={"content": message.text.lower()}))]
            for position, message in enumerate(request.messages[first:], first)
            if message.role == "tool"
        }

    async def answer(self, response: Response, trace: Trace) -> tuple[Response, Sequence[Edit]]:
        hosted = [
            one if one.signed else one.model_copy(update={"text": "gone"}) for one in response.hosted_results
        ]
        after = response.model_copy(update={"hosted_results": hosted})
        return after, [Edit("hosted", response.message, after.message)]


def calls(number: int) -> list[dict[str, Any]]:
    return [
        {"type": "tool_use", "id": f"t{number}{letter}", "name": "look", "input": {"n": number}}
        for letter in "ab"
    ]


def results(number: int) -> list[dict[str, Any]]:
    return [
        {"type": "tool_result", "tool_use_id": f"t{number}{letter}", "content": f"RESULT {number}{letter}"}
        for letter in "ab"
    ]


def test_results_stay_rewritten_while_the_cache_marker_moves() -> None:
    def say(data: Any, number: int) -> Say:
        return Blocks(blocks=calls(number))

    with MessagesUpstream(say) as upstream, served(upstream.url, hooks=Editor()) as rollout:
        history: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "BEGIN"}]}]
        for number in range(6):
            marked = json.loads(json.dumps(history))
            marked[-1]["content"][-1]["cache_control"] = MARK
            assert post(rollout, body(marked, system="s")).status_code == 200
            more = {"type": "text", "text": f"MORE {number}"}
            history = [
                *history,
                {"role": "assistant", "content": calls(number)},
                {"role": "user", "content": [*results(number), more]},
            ]
        sent = upstream.calls[-1].body["messages"]
        said = [
            (block.get("content") or block["text"], "cache_control" in block)
            for item in sent
            if item["role"] == "user"
            for block in item["content"]
        ]
        expected = ["BEGIN"]
        for number in range(5):
            expected += [f"result {number}a", f"result {number}b", f"MORE {number}"]
        assert said == [(text, text == "MORE 4") for text in expected]
        assert [item["role"] for item in sent] == ["user", "assistant"] * 5 + ["user"]
        dag = rollout.trace.dag
        assert len(dag.leaves) == 1 and len(dag.nodes) == 2 + 6 + 5 * 3
        assert len(rollout.trace.rewrites) == 10


class Keeps(Scripted):
    """Keeps the bodies that would go upstream."""

    bodies: list[Any]

    async def call(self, request: Any) -> Any:
        self.bodies.append(json.loads(request.body))
        return await super().call(request)


def _next(history: list[Any], dice: random.Random, number: int) -> list[Any]:
    """A history that grew, was cut or was edited, with its cache marks elsewhere."""
    history = json.loads(json.dumps(history))
    kind = dice.random()
    if kind < 0.2 and len(history) > 3:
        history = history[: dice.randrange(1, len(history), 2)]
    elif kind < 0.4 and len(history) > 3:
        history[dice.randrange(2, len(history), 2)] = {"role": "user", "content": results(number)}
    else:
        more = {"type": "text", "text": f"MORE {number}"}
        said = [*results(number)[: dice.choice((1, 2))], *([more] if dice.random() < 0.5 else [])]
        history += [{"role": "assistant", "content": calls(number)}, {"role": "user", "content": said}]
    for item in history:
        for block in item["content"]:
            block.pop("cache_control", None)
    for item in (history[-1], dice.choice(history)):
        item["content"][-1]["cache_control"] = MARK
    return history


@pytest.mark.parametrize("seed", range(6))
def test_what_goes_upstream_is_the_programs_history_with_all_results_rewritten(seed: int) -> None:
    def rewritten(history: list[Any]) -> list[Any]:
        lower = json.loads(json.dumps(history))
        for item in lower:
            for block in item["content"]:
                if block["type"] == "tool_result":
                    block["content"] = block["content"].lower()
        return lower

    dice = random.Random(seed)
    model = Keeps(["ok"], cycle=True)
    model.bodies = []
    history: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "BEGIN"}]}]
    with served(model, hooks=Editor()) as rollout:
        for number in range(25):
            history = _next(history, dice, number)
            assert post(rollout, body(history)).status_code == 200
            assert model.bodies[-1]["messages"] == rewritten(history), number
        assert rollout.session.fault is None


def test_hosted_results_are_replaced_on_the_way_to_the_program() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "server_tool_use", "id": "s1", "name": "web_fetch", "input": {}},
        {
            "type": "bash_code_execution_tool_result",
            "tool_use_id": "s1",
            "content": {"type": "bash_code_execution_result", "stdout": "42", "stderr": "", "return_code": 0},
        },
        {"type": "text", "text": "found"},
    ]
    for stream in (False, True):
        with (
            MessagesUpstream([Blocks(blocks=blocks)]) as upstream,
            served(upstream.url, hooks=Editor(answers=True)) as rollout,
        ):
            answer = post(rollout, body(stream=stream))
            if stream:
                reader = MESSAGES.reader()
                reader.feed(answer.content)
                got = json.loads(MESSAGES.frame(reader.response(), "m"))["content"]
            else:
                got = answer.json()["content"]
            assert got[2]["content"]["stdout"] == "gone" and got[:2] == blocks[:2] and got[3] == blocks[3]


# settings, ends, counts


def test_the_runs_settings_and_model_win() -> None:
    sampling = SamplingConfig(temperature=0.25, max_tokens=77, stop=["END"], extra_body={"speed": "fast"})
    with (
        MessagesUpstream([Blocks()]) as upstream,
        served(Relay("real", base_url=upstream.url), sampling=sampling) as rollout,
    ):
        answer = post(rollout, body(temperature=1.0, metadata={"user_id": "u"}))
        sent = upstream.calls[0].body
        (call,) = rollout.trace.dag.calls
    assert sent == body() | {
        "model": "real",
        "temperature": 0.25,
        "max_tokens": 77,
        "stop_sequences": ["END"],
        "speed": "fast",
        "metadata": {"user_id": "u"},
    }
    assert answer.json()["model"] == "real"
    assert call.sampling_asked == {"max_tokens": 9, "temperature": 1.0}
    assert call.sampling_sent == {"max_tokens": 77, "temperature": 0.25, "stop": ["END"], "speed": "fast"}


def test_a_window_that_is_full_in_the_answer_is_told_as_it_is() -> None:
    say = Blocks(reason="model_context_window_exceeded")
    with MessagesUpstream([say]) as upstream, served(upstream.url) as rollout:
        assert post(rollout, body()).json()["stop_reason"] == "model_context_window_exceeded"
        (call,) = rollout.trace.dag.calls
        assert call.finish_reason == "length"
        assert rollout.trace.dag.nodes[-1].message.model_extra == {
            "stop_reason": "model_context_window_exceeded"
        }


class Bare(MessagesUpstream):
    """Has no route that counts."""

    async def handle(self, request: Any) -> Any:
        if request.path.endswith("/count_tokens"):
            return aiohttp.web.json_response({"error": "no"}, status=404)
        return await super().handle(request)


def test_counts_come_from_the_upstream_or_are_estimated() -> None:
    path = "/v1/messages/count_tokens?beta=true"
    with MessagesUpstream() as upstream, served(Relay("real", base_url=upstream.url)) as rollout:
        counted = post(rollout, body(), path, **{"anthropic-beta": "x"})
        assert counted.json() == {"input_tokens": 42}
        (asked,) = upstream.counted
        assert asked.body == body() | {"model": "real"}
        assert asked.headers["anthropic-beta"] == "x" and asked.headers["anthropic-version"] == "2023-06-01"
        assert post(rollout, {"messages": []}, path).status_code == 400
        assert rollout.trace.dag.calls == [] and rollout.session.requests == 0
        rollout.run(_stop(rollout))
        refused = post(rollout, body(), path)
        assert refused.status_code == 403 and refused.json()["error"]["type"] == "permission_error"
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 400_000}}
    tools = [{"name": "f", "description": "d" * 400, "input_schema": {"type": "object"}}]
    with Bare() as upstream, served(Relay("", base_url=upstream.url)) as rollout:
        plain = post(rollout, body([{"role": "user", "content": "word " * 400}], tools=tools), path).json()
        assert 600 < plain["input_tokens"] < 700
        seen = post(rollout, body([{"role": "user", "content": [image]}]), path).json()
        assert 1600 < seen["input_tokens"] < 1700


async def _stop(rollout: Served) -> None:
    rollout.session.stop("done")


def test_counting_does_not_use_up_turns() -> None:
    with served(Scripted(["one"]), limits=Limits(max_turns=1)) as rollout:
        for _ in range(3):
            assert post(rollout, body(), "/v1/messages/count_tokens").status_code == 200
        assert post(rollout, body()).status_code == 200
        assert post(rollout, body()).status_code == 403


def test_reasoning_of_a_scripted_model_comes_back_as_the_same_turn() -> None:
    said = AssistantMessage(content="x", reasoning_content="hm ")
    with served(Scripted([said, "done"])) as rollout:
        content = post(rollout, body()).json()["content"]
        assert content[0] == {"type": "thinking", "thinking": "hm ", "signature": ""}
        for blocks in (content, content[1:]):
            history = [*ASK, {"role": "assistant", "content": blocks}, {"role": "user", "content": "go"}]
            post(rollout, body(history))
        assert len(rollout.trace.dag.leaves) == 1
