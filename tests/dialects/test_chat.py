"""Chat Completions requests and replies, both directions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vfnb.dialects import Dialect, RequestError, Splitter, get
from vfnb.errors import ConfigError
from vfnb.types import (
    AssistantMessage,
    AudioContentPart,
    FileContentPart,
    ImageUrlContentPart,
    Message,
    OpaqueContentPart,
    OtherMessage,
    RefusalContentPart,
    Response,
    SystemMessage,
    TextContentPart,
    Tool,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)

CHAT = get("chat")


def decode(item: dict[str, Any]) -> Message:
    (message,) = CHAT.decode(json.dumps(item).encode())
    return message


def encode(message: Message) -> Any:
    return json.loads(CHAT.encode([message])[0])


@pytest.mark.parametrize("role", ["system", "developer"])
def test_developer_is_system(role: str) -> None:
    assert decode({"role": role, "content": "x"}) == SystemMessage(content="x")


def test_parts_are_typed_or_opaque() -> None:
    parts = [
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        {"type": "file", "file": {"file_id": "f1", "x": 1}},
        {"type": "video_url", "video_url": {"url": "u"}},
        {"type": "text"},
    ]
    message = decode({"role": "user", "content": parts, "name": "bob"})
    assert isinstance(message, UserMessage)
    kinds = [type(part) for part in message.content]
    assert kinds == [
        TextContentPart,
        ImageUrlContentPart,
        AudioContentPart,
        FileContentPart,
        OpaqueContentPart,
        OpaqueContentPart,
    ]
    assert message.text == "a"
    assert encode(message) == {"role": "user", "content": parts, "name": "bob"}


ROUND_TRIPS: list[dict[str, Any]] = [
    {"role": "user", "content": " hi \n"},
    {"role": "critic", "content": "x", "score": 1},
    {"role": "assistant", "content": None},
    {"role": "assistant", "content": "", "annotations": []},
    {"role": "assistant", "content": None, "refusal": "no"},
    {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": "x", "reasoning_content": "think "},
    {
        "role": "assistant",
        "content": "x",
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "=="}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "out", "is_error": True},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a"}]},
    {"role": "function", "name": "f", "content": "out"},
    {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{"}},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a":  1'}},
            {"id": "2", "type": "custom", "custom": {"name": "g", "input": "free text"}},
            {
                "id": "3",
                "type": "function",
                "function": {"name": "h", "arguments": ""},
                "extra_content": {"s": "t"},
            },
            {"id": "4", "type": "weird", "weird": {"a": 1}},
        ],
    },
]


@pytest.mark.parametrize("item", ROUND_TRIPS)
def test_messages_survive_a_round_trip(item: dict[str, Any]) -> None:
    message = decode(item)
    back = encode(message)
    if item["role"] == "tool" and "is_error" in item:
        assert isinstance(message, ToolMessage)
        assert message.is_error
        back["is_error"] = True
    assert back == item
    assert decode(back) == message or item.get("is_error")


def test_details_of_assistant_messages() -> None:
    message = decode(ROUND_TRIPS[-1])
    assert isinstance(message, AssistantMessage)
    assert [(call.name, call.type, call.arguments) for call in message.tool_calls[:3]] == [
        ("f", "function", '{"a":  1'),
        ("g", "custom", "free text"),
        ("h", "function", ""),
    ]
    assert decode({"role": "assistant", "content": None, "refusal": "no"}).content == [
        RefusalContentPart(refusal="no")
    ]
    spoken = decode({"role": "assistant", "content": "x", "reasoning": "why"})
    assert isinstance(spoken, AssistantMessage)
    assert spoken.reasoning_content == "why"
    details = [{"type": "reasoning.text", "text": "a"}, {"type": "reasoning.summary", "summary": "b"}]
    spoken = decode({"role": "assistant", "content": "x", "reasoning_details": details})
    assert isinstance(spoken, AssistantMessage)
    assert spoken.reasoning_content == "ab"
    assert spoken.model_extra == {"reasoning_details": details}
    objects = decode(
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {"a": 1}}}]}
    )
    assert isinstance(objects, AssistantMessage)
    assert objects.tool_calls == [ToolCall(id="1", name="f", arguments='{"a":1}')]
    assert isinstance(decode({"role": "critic", "content": "x"}), OtherMessage)


@pytest.mark.parametrize(
    "item", [b"1", b'"x"', b"{}", b'{"role": 1}', b'{"role":"user"', b'{"role":"tool","is_error":"?"}']
)
def test_what_is_no_message_is_refused(item: bytes) -> None:
    with pytest.raises(RequestError):
        CHAT.decode(item)


def test_tools() -> None:
    grammar = {"type": "custom", "custom": {"name": "g", "description": "d", "format": {"type": "text"}}}
    search = {"type": "web_search", "filters": 1}
    function = {
        "type": "function",
        "function": {"name": "f", "description": "d", "parameters": {"type": "object"}},
    }
    strict = {
        "type": "function",
        "function": {"name": "s", "parameters": {}, "strict": True},
        "cache_control": {},
    }
    body = {"messages": [], "tools": [function, strict, grammar, search], "functions": [{"name": "old"}]}
    split = Splitter(CHAT).split(json.dumps(body).encode())
    tools = CHAT.read_tools(split)
    assert tools[0] == Tool(name="f", description="d", parameters={"type": "object"})
    assert (tools[1].strict, tools[1].raw) == (True, strict)
    assert [(tool.name, tool.type) for tool in tools] == [
        ("f", "function"),
        ("s", "function"),
        ("g", "custom"),
        ("web_search", "web_search"),
        ("old", "function"),
    ]
    assert tools[2].raw == grammar
    assert CHAT.parse_request(body) == ([], tools)
    assert CHAT.parse_request({"messages": []})[1] is None


def asked(**keys: Any) -> dict[str, Any]:
    return CHAT.sampling(Splitter(CHAT).split(json.dumps({"messages": [], **keys}).encode()).fields)


def test_sampling_as_asked() -> None:
    assert asked(max_tokens=5, max_completion_tokens=7) == {"max_tokens": 7}
    assert asked(max_tokens=5, stop="x", stream=True, tools=[], model="m") == {"max_tokens": 5, "stop": ["x"]}
    assert asked(temperature=0, thinking={"a": 1}) == {"temperature": 0, "thinking": {"a": 1}}


def test_several_choices_are_refused() -> None:
    body = b'{"n": 2, "messages": [{"role": "user", "content": "x"}]}'
    with pytest.raises(RequestError, match="n=2") as caught:
        CHAT.check(Splitter(CHAT).split(body))
    assert caught.value.status == 400
    CHAT.check(Splitter(CHAT).split(body.replace(b"2", b"1")))
    with pytest.raises(RequestError, match="no messages"):
        CHAT.check(Splitter(CHAT).split(b'{"messages": []}'))


def test_stream_flag() -> None:
    for text, value in (("true", True), ("false", False), ("null", False)):
        assert (
            CHAT.streams(Splitter(CHAT).split(f'{{"messages":[],"stream":{text}}}'.encode()).fields) is value
        )
    assert not CHAT.streams({})


def test_reply_round_trip() -> None:
    message = AssistantMessage(
        content="hi",
        reasoning_content="why",
        tool_calls=[
            ToolCall(id="1", name="f", arguments="{"),
            ToolCall(id="2", name="g", arguments="x", type="custom"),
        ],
    )
    usage = Usage(prompt_tokens=5, completion_tokens=4, cached_tokens=3, reasoning_tokens=2, cost=0.5)
    response = Response(
        message=message, finish_reason="tool_calls", usage=usage, id="chatcmpl-9", model="served"
    )
    body = CHAT.frame(response, "asked", 12)
    data = json.loads(body)
    assert (data["model"], data["created"], data["id"]) == ("asked", 12, "chatcmpl-9")
    assert data["usage"]["total_tokens"] == 9
    assert CHAT.read_response(body) == response.model_copy(update={"model": "asked"})


USAGES: list[tuple[dict[str, Any], Usage]] = [
    ({"prompt_tokens": 3, "completion_tokens": 2}, Usage(prompt_tokens=3, completion_tokens=2)),
    ({"prompt_tokens": 3, "prompt_tokens_details": None, "cost": 1}, Usage(prompt_tokens=3, cost=1.0)),
    ({"prompt_tokens": 3, "prompt_cache_hit_tokens": 2}, Usage(prompt_tokens=3, cached_tokens=2)),
    (
        {"prompt_tokens": 3, "completion_tokens_details": {"reasoning_tokens": 1}},
        Usage(prompt_tokens=3, reasoning_tokens=1),
    ),
]


@pytest.mark.parametrize(("wire", "usage"), USAGES)
def test_usage_variants(wire: dict[str, Any], usage: Usage) -> None:
    body = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": wire}
    assert CHAT.parse_response(body).usage == usage


@pytest.mark.parametrize(
    ("wire", "calls", "reason"),
    [
        ("stop", False, "stop"),
        ("length", False, "length"),
        ("tool_calls", True, "tool_calls"),
        ("tool_calls", False, "stop"),
        ("function_call", True, "tool_calls"),
        ("content_filter", False, "content_filter"),
        ("new_reason", False, "stop"),
        (None, False, "stop"),
    ],
)
def test_finish_reasons(wire: str | None, calls: bool, reason: str) -> None:
    message: dict[str, Any] = {"content": "x"}
    if calls:
        message["tool_calls"] = [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]
    body = {"choices": [{"message": message, "finish_reason": wire}]}
    assert CHAT.parse_response(body).finish_reason == reason


@pytest.mark.parametrize(
    "body", [b"{}", b'{"choices": [1]}', b'{"choices":[{"message":3}]}', b"nothing", b"[]", b"\xff"]
)
def test_replies_that_are_none(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a|not JSON|not an object"):
        CHAT.read_response(body)


def test_error_bodies() -> None:
    stop = json.loads(CHAT.stop_body("max_turns"))
    assert CHAT.stop_status == 401
    assert stop["error"]["type"] == "authentication_error"
    assert stop["error"]["code"] == "invalid_api_key"
    assert "max_turns" in stop["error"]["message"]
    status, body = CHAT.overflow_error()
    assert status == 400
    assert json.loads(body)["error"]["code"] == "context_length_exceeded"
    assert CHAT.recognise_overflow(status, body)
    assert json.loads(CHAT.error_body(429, "slow"))["error"]["type"] == "rate_limit_error"
    assert CHAT.stream_error(500, "x").startswith(b'data: {"error":')
    assert CHAT.keepalive() == b": keepalive\n\n"


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 8192 tokens.",
        "The prompt (total length 9000) exceeds max_model_len of 8192",
        "prompt length (9000) exceeds the limit",
        "the request exceeds the available context size",
    ],
)
def test_overflow_in_other_words(text: str) -> None:
    assert CHAT.recognise_overflow(400, CHAT.error_body(400, text))
    assert not CHAT.recognise_overflow(500, CHAT.error_body(500, text))


def test_other_refusals_are_no_overflow() -> None:
    assert not CHAT.recognise_overflow(400, CHAT.error_body(400, "unknown parameter: context"))


def test_model_list() -> None:
    assert json.loads(CHAT.models_body(["a", "b"]))["data"][1]["id"] == "b"
    assert json.loads(CHAT.models_body(["a"], one=True))["id"] == "a"


def test_a_request_is_written_whole() -> None:
    messages = [SystemMessage(content="be brief"), UserMessage(content="hi")]
    tool = Tool(name="add", description="adds", parameters={"type": "object"}, strict=True)
    sampling = {"max_tokens": 5, "stop": ["x"], "seed": None, "tool_choice": {"name": "add"}}
    sampling["extra_body"] = {"vendor": 1}
    body = CHAT.request(messages, [tool], "m", sampling, stream=True)
    told = Splitter(CHAT).split(body)
    assert CHAT.read(told) == messages
    assert CHAT.read_tools(told) == [tool]
    assert json.loads(body)["tool_choice"] == {"type": "function", "function": {"name": "add"}}
    asked = {"max_tokens": 5, "stop": ["x"], "tool_choice": {"name": "add"}, "vendor": 1}
    assert CHAT.sampling(told.fields) == asked
    assert CHAT.model(told.fields) == "m" and CHAT.streams(told.fields) and CHAT.wants_usage(told.fields)
    plain = json.loads(CHAT.request(messages, [], "m", {}, stream=False))
    assert plain.keys() == {"model", "messages"}


def test_a_dialect_without_request_says_what_to_do() -> None:
    class Bare(Dialect[Any, Any]):
        def parse_request(self, body: Any) -> Any:
            return [], None

        def parse_response(self, resp: Any) -> Response:
            return Response(message=AssistantMessage(content=""))

    with pytest.raises(ConfigError, match=r"define request\(messages"):
        Bare().request([], [], "m", {}, stream=False)
