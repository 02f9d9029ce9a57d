"""The official client reads the replies and streams that we write."""

from __future__ import annotations

import httpx
from openai import OpenAI

from vfnb.dialects import get
from vfnb.types import AssistantMessage, Response, ToolCall, Usage

CHAT = get("chat")
RESPONSE = Response(
    message=AssistantMessage(
        content="hello there, world",
        reasoning_content="hm",
        tool_calls=[
            ToolCall(id="a", name="f", arguments='{"x": 1}'),
            ToolCall(id="b", name="g", arguments=""),
        ],
    ),
    finish_reason="tool_calls",
    usage=Usage(prompt_tokens=5, completion_tokens=2, cached_tokens=1),
)


def client(body: bytes, kind: str, status: int = 200) -> OpenAI:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, headers={"Content-Type": kind}, content=body)

    http = httpx.Client(transport=httpx.MockTransport(answer))
    return OpenAI(base_url="http://test/v1", api_key="x", http_client=http, max_retries=0)


def test_plain_reply() -> None:
    body = CHAT.frame(RESPONSE, "asked", 7)
    reply = client(body, "application/json").chat.completions.create(model="asked", messages=[])
    choice = reply.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "hello there, world"
    assert [call.function.arguments for call in choice.message.tool_calls or []] == ['{"x": 1}', ""]
    assert reply.usage is not None
    assert reply.usage.total_tokens == 7
    assert (reply.model, reply.created) == ("asked", 7)


def test_stream() -> None:
    body = b"".join([CHAT.keepalive(), *CHAT.frame_stream(RESPONSE, "asked", 7, size=5)])
    with client(body, "text/event-stream").chat.completions.stream(model="asked", messages=[]) as stream:
        for _ in stream:
            pass
        reply = stream.get_final_completion()
    message = reply.choices[0].message
    assert message.content == "hello there, world"
    assert [(call.function.name, call.function.arguments) for call in message.tool_calls or []] == [
        ("f", '{"x": 1}'),
        ("g", ""),
    ]
    assert reply.choices[0].finish_reason == "tool_calls"
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == 5


def test_stream_without_usage() -> None:
    body = b"".join(CHAT.frame_stream(RESPONSE, "asked", usage=False))
    chunks = list(
        client(body, "text/event-stream").chat.completions.create(model="m", messages=[], stream=True)
    )
    assert all(chunk.choices for chunk in chunks)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "hello there, world"


def test_stop_reply_is_not_retried() -> None:
    calls = []

    def answer(request: httpx.Request) -> httpx.Response:
        calls.append(request)
        headers = {"Content-Type": "application/json"}
        return httpx.Response(CHAT.stop_status, headers=headers, content=CHAT.stop_body("max_turns"))

    http = httpx.Client(transport=httpx.MockTransport(answer))
    sdk = OpenAI(base_url="http://test/v1", api_key="x", http_client=http)
    try:
        sdk.chat.completions.create(model="m", messages=[])
        raised = ""
    except Exception as error:
        raised = type(error).__name__ + str(error)
    assert raised.startswith("AuthenticationError")
    assert "max_turns" in raised
    assert len(calls) == 1


def test_error_inside_a_stream_is_raised() -> None:
    body = CHAT.frame_stream(RESPONSE, "asked")[0] + CHAT.stream_error(500, "it broke")
    try:
        list(client(body, "text/event-stream").chat.completions.create(model="m", messages=[], stream=True))
        raised = ""
    except Exception as error:
        raised = type(error).__name__ + str(error)
    assert raised.startswith("APIError")
    assert "it broke" in raised
