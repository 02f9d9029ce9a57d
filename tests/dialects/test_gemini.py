"""Gemini requests and replies, both directions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vfnb.dialects import RequestError, Splitter, get, match
from vfnb.types import (
    AssistantMessage,
    AudioContentPart,
    FileContentPart,
    ImageUrlContentPart,
    OpaqueContentPart,
    ReasoningContentPart,
    Response,
    SystemMessage,
    TextContentPart,
    Tool,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)

GEMINI = get("gemini")
STREAM = "/v1beta/models/gem:streamGenerateContent?alt=sse"
CALL = {
    "functionCall": {"id": "c1", "name": "add", "args": {"a": 1}},
    "thoughtSignature": "c2ln",
}


def decode(item: dict[str, Any]) -> list[Any]:
    return GEMINI.decode(json.dumps(item).encode())


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1beta/models/gem:generateContent", "gemini"),
        ("/v1/models/gem:generateContent?key=x", "gemini"),
        (STREAM, "gemini"),
        (STREAM + "&key=x", "gemini"),
        ("/v1beta/models/gem:streamGenerateContent", "gemini_list"),
        ("/v1beta/models/gem:streamGenerateContent?key=x&alt=json", "gemini_list"),
    ],
)
def test_the_query_decides_how_a_stream_is_sent(path: str, name: str) -> None:
    dialect = match(path)
    assert dialect is not None and dialect.name == name
    body = dialect.receive(b'{"contents":[]}', path)
    fields = Splitter(dialect).split(body).fields
    assert dialect.model(fields) == "gem"
    assert dialect.streams(fields) is ("alt=sse" in path)


@pytest.mark.parametrize(
    "body", [b"{}", b"{ }", b'{"contents":[]}', b'{\n "contents" : [ ]\n}', b'{ "model":"models/x"}']
)
def test_a_request_leaves_as_it_came(body: bytes) -> None:
    folded = GEMINI.receive(body, STREAM)
    assert json.loads(folded)["stream"] is True
    assert GEMINI.send(folded) == body


@pytest.mark.parametrize("body", [b"", b"[1]", b'"{"', b"nonsense {"])
def test_what_is_no_object_is_left_to_the_reader(body: bytes) -> None:
    assert GEMINI.receive(body, STREAM) == body
    with pytest.raises(RequestError):
        Splitter(GEMINI).split(GEMINI.receive(body, STREAM))


def test_parts_are_typed_or_opaque() -> None:
    parts = [
        {"text": "a"},
        {"inlineData": {"mimeType": "image/png", "data": "AA"}},
        {"inline_data": {"mime_type": "audio/wav", "data": "BB"}},
        {"inlineData": {"mimeType": "application/pdf", "data": "CC"}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://x/y.png"}},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
    ]
    (message,) = decode({"role": "user", "parts": parts})
    assert isinstance(message, UserMessage)
    kinds = [type(part) for part in message.content]
    assert kinds == [
        TextContentPart,
        ImageUrlContentPart,
        AudioContentPart,
        FileContentPart,
        ImageUrlContentPart,
        OpaqueContentPart,
    ]
    written = json.loads(GEMINI.encode([message])[0])["parts"]
    parts[2] = {"inlineData": {"mimeType": "audio/wav", "data": "BB"}}
    assert written == parts


def test_signatures_survive_byte_for_byte() -> None:
    parts = [
        {"text": "hm", "thought": True, "thoughtSignature": "+/=="},
        {"text": "hello"},
        {"text": "", "thoughtSignature": "dA=="},
        CALL,
    ]
    (message,) = decode({"role": "model", "parts": parts})
    assert isinstance(message, AssistantMessage)
    assert isinstance(message.content, list) and isinstance(message.content[0], ReasoningContentPart)
    assert message.text == "hello" and message.tool_calls[0].parsed == {"a": 1}
    assert json.loads(GEMINI.encode([message])[0]) == {"role": "model", "parts": parts}


def test_results_come_before_what_else_the_user_says() -> None:
    parts = [
        {"text": "and now?"},
        {"functionResponse": {"id": "c1", "name": "add", "response": {"output": "3"}}},
        {"functionResponse": {"name": "sub", "response": {"error": "no"}}},
        {"functionResponse": {"name": "mul", "response": {"result": 3}}},
    ]
    first, second, third, rest = decode({"parts": parts})
    assert first == ToolMessage(tool_call_id="c1", content="3", name="add")  # type: ignore[call-arg]
    assert second.is_error and second.text == "no" and second.tool_call_id == ""
    assert third.text == '{"result":3}'
    assert rest == UserMessage(content="and now?")
    item = json.dumps({"parts": parts}).encode()
    again = json.loads(GEMINI.rewrite(item, [first, second, third, rest]))
    assert again == {"parts": [*parts[1:], parts[0]]}


def test_events_of_one_answer_are_one_turn() -> None:
    turns = [{"role": "model", "parts": [{"text": text}]} for text in ("hel", "lo", "")]
    turns.append({"role": "model", "parts": [CALL]})
    messages, _ = GEMINI.parse_request({"contents": turns})
    (message,) = messages
    assert isinstance(message, AssistantMessage)
    assert message.content == "hello" and message.tool_calls[0].name == "add"


def test_tools_and_settings() -> None:
    schema = {"type": "OBJECT", "properties": {"a": {"type": "INTEGER", "nullable": True}}}
    function = {"name": "add", "description": "adds", "parameters": schema}
    body = {
        "system_instruction": {"parts": [{"text": "be brief"}]},
        "contents": [{"parts": [{"text": "hi"}]}],
        "tools": [{"functionDeclarations": [function]}, {"googleSearch": {}}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["add"]}},
        "generationConfig": {
            "maxOutputTokens": 5,
            "top_k": 3,
            "responseMimeType": "application/json",
            "thinkingConfig": {"thinkingBudget": 8000},
            "speechConfig": {},
        },
    }
    split = Splitter(GEMINI).split(json.dumps(body).encode())
    add, search = GEMINI.read_tools(split)
    assert add.parameters == {"type": "object", "properties": {"a": {"type": ["integer", "null"]}}}
    assert (search.name, search.type, search.raw) == ("google_search", "google_search", {"googleSearch": {}})
    assert GEMINI.sampling(split.fields) == {
        "max_tokens": 5,
        "top_k": 3,
        "response_format": {"type": "json_object"},
        "reasoning_effort": "medium",
        "tool_choice": {"name": "add"},
        "speechConfig": {},
    }
    assert GEMINI.read(split) == [SystemMessage(content="be brief"), UserMessage(content="hi")]
    changes = GEMINI.override(split.fields, {"max_tokens": 7, "stop": ["x"]}, "other")
    config = json.loads(changes["generationConfig"] or b"")
    assert changes.keys() == {"generationConfig"}
    assert (config["maxOutputTokens"], config["stopSequences"], config["speechConfig"]) == (7, ["x"], {})


def test_a_request_is_written_whole() -> None:
    messages = [
        SystemMessage(content="be brief"),
        UserMessage(content="hi"),
        AssistantMessage(content=None, tool_calls=[ToolCall(id="c1", name="add", arguments='{"a": 1}')]),
        ToolMessage(tool_call_id="c1", content="3"),
        SystemMessage(content="hurry"),
    ]
    tool = Tool(name="add", description="adds", parameters={"type": "object"})
    form = {"type": "json_schema", "json_schema": {"name": "response", "schema": {"type": "object"}}}
    sampling = {
        "max_tokens": 5,
        "tool_choice": "required",
        "response_format": form,
        "reasoning_effort": "low",
    }
    split = Splitter(GEMINI).split(GEMINI.request(messages, [tool], "m", sampling, stream=True))
    assert GEMINI.sampling(split.fields) == sampling
    assert GEMINI.read_tools(split) == [tool]
    turns = [json.loads(bytes(item)) for item in split.items]
    assert [turn["role"] for turn in turns] == ["user", "model", "user"]
    assert turns[2]["parts"] == [
        {"functionResponse": {"id": "c1", "name": "add", "response": {"output": "3"}}},
        {"text": "hurry"},
    ]


def test_replies_are_read_as_they_were_written() -> None:
    call = ToolCall(id="c1", name="add", arguments='{"a":1}', thought_signature="cw==")  # type: ignore[call-arg]
    thought = ReasoningContentPart(text="thinking about it", signature="dA==")
    message = AssistantMessage(
        content=[thought, TextContentPart(text="a longer text of several pieces")], tool_calls=[call]
    )
    usage = Usage(prompt_tokens=5, completion_tokens=4, cached_tokens=2, reasoning_tokens=1)
    response = Response(message=message, finish_reason="tool_calls", usage=usage, id="r1", model="gem")
    assert GEMINI.read_response(GEMINI.frame(response, "gem")) == response
    listed = get("gemini_list")
    assert listed.read_response(listed.frame(response, "gem")) == response
    events = GEMINI.frame_stream(response, "gem", size=7)
    reader = GEMINI.reader()
    passed = b"".join(reader.feed(event) for event in events)
    reader.close()
    assert reader.complete and reader.response() == response
    assert (passed, reader.held) == (b"".join(events[:-1]), events[-1])


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"candidates": [{"finishReason": "MAX_TOKENS"}]}, "length"),
        ({"candidates": [{"finishReason": "SAFETY"}]}, "content_filter"),
        ({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}, "error"),
        ({"candidates": [{"content": {"parts": [CALL]}, "finishReason": "STOP"}]}, "tool_calls"),
        ({"promptFeedback": {"blockReason": "SAFETY"}}, "content_filter"),
    ],
)
def test_finish_reasons(reply: dict[str, Any], reason: str) -> None:
    assert GEMINI.read_response(json.dumps(reply).encode()).finish_reason == reason


@pytest.mark.parametrize("reply", [b"{}", b"[]", b"no", b'{"candidates":[]}', b'{"candidates":[1]}'])
def test_what_is_no_reply_is_refused(reply: bytes) -> None:
    with pytest.raises(ValueError):
        GEMINI.read_response(reply)


def test_a_cut_stream_and_an_error_in_a_stream() -> None:
    reader = GEMINI.reader()
    reader.feed(b'data: {"candidates":[{"content":{"parts":[{"text":"hel"}]}}]}\n\n')
    reader.close()
    assert not reader.complete and reader.partial_text == "hel"
    reader = GEMINI.reader()
    reader.feed(b'data: {"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}\n\n')
    assert reader.error == {"code": 503, "message": "busy", "status": "UNAVAILABLE"}


def test_errors_have_googles_form() -> None:
    status, body = GEMINI.overflow_error("131073 tokens")
    assert json.loads(body)["error"]["status"] == "INVALID_ARGUMENT"
    assert GEMINI.recognise_overflow(status, body)
    google = b"The input token count (1048580) exceeds the maximum number of tokens allowed (1048576)."
    assert GEMINI.recognise_overflow(400, google) and not GEMINI.recognise_overflow(429, google)
    assert json.loads(GEMINI.error_body(429, "slow"))["error"]["status"] == "RESOURCE_EXHAUSTED"
    assert json.loads(GEMINI.stop_body("max_turns"))["error"] == {
        "code": 400,
        "message": "The rollout has been stopped: max_turns.",
        "status": "FAILED_PRECONDITION",
    }
