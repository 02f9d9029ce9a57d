"""Any program on any server: the official clients over translated calls."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest
from support.messages_upstream import MessagesUpstream
from support.rollouts import served, until
from support.speakers import ERRORS, FAILING, PROGRAMS, RAW, Line, image_sent, server
from support.upstream import Say, Upstream

from vfnb.clients import Relay
from vfnb.dialects import get
from vfnb.interception import Hooks, Settings
from vfnb.trace import Trace
from vfnb.types import Response

DIALECTS = ["chat", "responses", "messages", "gemini"]
LINES = [
    Line("I will add them.", "They want a sum.", [("call_1", "add", {"a": 1}), ("call_2", "add", {"a": 2})]),
    Line("The sum is three."),
]
TOOLS_DONE = {"chat": "tool_calls", "responses": "completed", "messages": "tool_use", "gemini": "STOP"}
DONE = {"chat": "stop", "responses": "completed", "messages": "end_turn", "gemini": "STOP"}
PAIRS = [(program, upstream) for program in DIALECTS for upstream in DIALECTS]
FOREIGN = [(program, upstream) for program, upstream in PAIRS if program != upstream]


def relay(url: str, dialect: str, **keys: Any) -> Relay:
    return Relay("served", base_url=url, dialect=dialect, retry_wait=0.01, max_retries=0, **keys)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(("program", "upstream"), PAIRS)
def test_a_conversation_with_tools_reasoning_and_an_image(program: str, upstream: str, stream: bool) -> None:
    with server(upstream, LINES) as model, served(relay(model.url, upstream)) as rollout:
        first, second = PROGRAMS[program](rollout, stream=stream).converse()
        assert (first.text, first.reasoning) == ("I will add them.", "They want a sum.")
        assert [(name, args) for _, name, args in first.calls] == [("add", {"a": 1}), ("add", {"a": 2})]
        assert (first.finish, second.finish) == (TOOLS_DONE[program], DONE[program])
        assert second.text == "The sum is three."
        assert second.tokens >= 10
        bodies = [call.body for call in model.calls]
        assert image_sent(upstream, bodies[0]) and image_sent(upstream, bodies[1])
        assert "served" in str(bodies[0].get("model")) or "/models/served:" in model.calls[0].path
        calls = rollout.trace.calls
        assert [call.dialect for call in calls] == [program, program]
        assert all(call.sampling_sent["temperature"] == 0.5 for call in calls)
        assert all(call.sampling_sent["max_tokens"] == 100 for call in calls)
        # one line: what comes back is what was sampled, and the tools' results found their calls
        assert len(rollout.trace.branches) == 1
        roles = [node.message.role for node in rollout.trace.nodes]
        assert roles == ["system", "user", "assistant", "tool", "tool", "assistant"]
        results = [node.message for node in rollout.trace.nodes if node.message.role == "tool"]
        assert [message.text for message in results] == ["3", "3"]


@pytest.mark.parametrize(("program", "upstream"), FOREIGN)
def test_an_error_has_the_programs_form(program: str, upstream: str) -> None:
    with FAILING[upstream](503, "no more room today") as model, served(relay(model.url, upstream)) as rollout:
        with pytest.raises(ERRORS) as caught:
            PROGRAMS[program](rollout, stream=False).converse()
        status = getattr(caught.value, "status_code", None) or caught.value.code
        assert status == 503
        assert "no more room today" in str(caught.value)
        assert rollout.trace.calls[0].error.type in ("UpstreamServerError", "UpstreamRateLimited")


OVERFLOW = {
    "chat": "This model's maximum context length is 10 tokens.",
    "responses": "Your input exceeds the context window of this model.",
    "messages": "prompt is too long: 20 tokens > 10 maximum",
    "gemini": "The input token count (20) exceeds the maximum number of tokens allowed (10).",
}


@pytest.mark.parametrize(("program", "upstream"), FOREIGN)
def test_a_full_context_is_said_in_the_programs_words(program: str, upstream: str) -> None:
    with FAILING[upstream](400, OVERFLOW[upstream]) as model, served(relay(model.url, upstream)) as rollout:
        with pytest.raises(ERRORS) as caught:
            PROGRAMS[program](rollout, stream=True).converse()
        said = getattr(caught.value, "details", None) or caught.value.body
        assert get(program).recognise_overflow(400, str(said).encode())
        assert rollout.session.last_overflow is not None
        assert rollout.trace.calls[0].error.type == "ContextLengthError"


@pytest.mark.parametrize(("program", "upstream"), PAIRS)
def test_the_first_words_arrive_before_the_last_are_said(program: str, upstream: str) -> None:
    path, body = RAW[program]
    line = Line("slowly " * 8, pace=0.02)
    with server(upstream, [line]) as model, served(relay(model.url, upstream)) as rollout:
        headers = {"x-goog-api-key": rollout.session.key}
        with httpx.stream(
            "POST", rollout.base_url + path, json={"model": "m", **body}, headers=headers
        ) as answer:
            assert answer.status_code == 200
            first = 0.0
            for line_ in answer.iter_lines():
                if not first and "slow" in line_:
                    first = time.monotonic()
            last = time.monotonic()
        asyncio.run(until(lambda: model.calls[0].end > 0))
        assert model.calls[0].start < first < model.calls[0].end <= last + 0.5
        assert model.calls[0].end - first > 0.1
        assert rollout.trace.nodes[-1].message.text == line.text


KEEPALIVES = {
    "chat": b": keepalive\n\n",
    "responses": b": keepalive\n\n",
    "messages": b'event: ping\ndata: {"type": "ping"}\n\n',
    "gemini": b"\r\n\r\n",
}


class Looking(Hooks):
    """A response hook that changes nothing."""

    on_response = True

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def response(self, response: Response, trace: Trace) -> str | None:
        self.seen.append(response.text)
        return None


@pytest.mark.parametrize("program", DIALECTS)
def test_a_stream_that_a_hook_must_see_whole_is_kept_alive(program: str) -> None:
    path, body = RAW[program]
    upstream = "chat" if program != "chat" else "gemini"
    line = Line("slowly " * 10, pace=0.02)
    hooks = Looking()
    settings = Settings(keepalive_after=0.05, keepalive_every=0.05)
    with (
        server(upstream, [line]) as model,
        served(relay(model.url, upstream), hooks=hooks, settings=settings) as rollout,
    ):
        headers = {"x-goog-api-key": rollout.session.key}
        with httpx.stream(
            "POST", rollout.base_url + path, json={"model": "m", **body}, headers=headers
        ) as answer:
            raw = answer.read()
        assert raw.startswith(KEEPALIVES[program] * 2)
        assert hooks.seen == [line.text]
        assert rollout.trace.calls[0].ok
    with (
        server(upstream, [line]) as model,
        served(relay(model.url, upstream), hooks=hooks, settings=settings) as rollout,
    ):
        heard = PROGRAMS[program](rollout, stream=True).converse(1)
        assert heard[0].text == line.text


BROKEN = {
    "chat": b'data: {"error": {"message": "the engine died", "code": 500}}\n\n',
    "messages": b'event: error\ndata: {"type": "error", "error": {"type": "api_error", "message": '
    b'"the engine died"}}\n\n',
    "responses": b'event: error\ndata: {"type": "error", "code": "server_error", "message": "the engine died"}\n\n',
}
STARTS = {
    "chat": b'data: {"choices": [{"index": 0, "delta": {"content": "Well "}}]}\n\n',
    "messages": b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0, "delta": '
    b'{"type": "text_delta", "text": "Well "}}\n\n',
    "responses": b'event: response.output_text.delta\ndata: {"type": "response.output_text.delta", '
    b'"output_index": 0, "content_index": 0, "delta": "Well "}\n\n',
}
SAYS = {"chat": Upstream, "messages": MessagesUpstream, "responses": Upstream}
BREAKS = [(program, upstream) for program, upstream in FOREIGN if upstream in BROKEN]


@pytest.mark.parametrize("started", [True, False])
@pytest.mark.parametrize(("program", "upstream"), BREAKS)
def test_an_error_inside_a_stream_has_the_programs_form(program: str, upstream: str, started: bool) -> None:
    events = [STARTS[upstream]] * started + [BROKEN[upstream]]
    with SAYS[upstream]([Say(events=events)]) as model, served(relay(model.url, upstream)) as rollout:
        path, body = RAW[program]
        headers = {"x-goog-api-key": rollout.session.key}
        answer = httpx.post(rollout.base_url + path, json={"model": "m", **body}, headers=headers)
        assert "the engine died" in answer.text
        assert answer.status_code == (200 if started else 502)
        if started:
            reader = get(program).reader()
            reader.feed(answer.content)
            reader.close()
            assert reader.error is not None and not reader.complete
            assert reader.partial_text == "Well "
        (call,) = rollout.trace.calls
        assert call.error is not None and call.partial_text == ("Well " if started else "")


@pytest.mark.parametrize(("program", "upstream"), BREAKS)
def test_a_cut_stream_is_cut_for_the_program(program: str, upstream: str) -> None:
    say = Say(events=[STARTS[upstream], STARTS[upstream]], cut_after=1)
    with SAYS[upstream]([say]) as model, served(relay(model.url, upstream)) as rollout:
        path, body = RAW[program]
        headers = {"x-goog-api-key": rollout.session.key}
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.post(rollout.base_url + path, json={"model": "m", **body}, headers=headers)
        assert rollout.trace.calls[0].partial_text == "Well "


def test_what_cannot_be_carried_is_on_the_call_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with server("chat", [Line("hello")]) as model, served(relay(model.url, "chat")) as rollout:
        headers = {"x-api-key": rollout.session.key}
        tools = [{"type": "web_search_20250305", "name": "web_search"}]
        for number in range(2):
            body = {
                "max_tokens": 9,
                "messages": [{"role": "user", "content": f"hi {number}"}],
                "tools": tools,
            }
            answer = httpx.post(
                rollout.base_url + "/v1/messages", json={"model": "m", **body}, headers=headers
            )
            assert answer.json()["content"] == [{"type": "text", "text": "hello"}]
        assert [call.dropped for call in rollout.trace.calls] == [["tool web_search"]] * 2
    (told,) = (record.getMessage() for record in caplog.records if record.name == "vfnb.clients")
    assert told.startswith("not carried from messages to chat: tool web_search.")


def test_what_is_refused_reaches_no_server_and_ends_no_rollout() -> None:
    with server("chat", [Line("hello")]) as model, served(relay(model.url, "chat")) as rollout:
        headers = {"x-api-key": rollout.session.key}
        part = {"type": "search_result", "source": "s", "title": "t", "content": []}
        body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [part]}]}
        answer = httpx.post(rollout.base_url + "/v1/messages", json=body, headers=headers)
        assert answer.status_code == 400
        assert answer.json()["error"]["type"] == "invalid_request_error"
        assert "search_result" in answer.json()["error"]["message"]
        assert not model.calls
        body["messages"] = [{"role": "user", "content": "hi"}]
        answer = httpx.post(rollout.base_url + "/v1/messages", json=body, headers=headers)
        assert answer.status_code == 200
        assert [call.ok for call in rollout.trace.calls] == [False, True]
