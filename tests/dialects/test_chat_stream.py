"""Chat Completions streams: reading what servers send, writing what programs accept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vfnb.dialects import StreamReader, get
from vfnb.types import AssistantMessage, RefusalContentPart, Response, ToolCall, Usage

CHAT = get("chat")
DONE = b"data: [DONE]\n\n"


def chunk(delta: dict[str, Any] | None = None, reason: str | None = None, **keys: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
    return b"data: " + json.dumps({"id": "c1", "model": "m", "choices": choices, **keys}).encode() + b"\n\n"


def run(*events: bytes) -> StreamReader:
    reader = CHAT.reader()
    passed = b"".join(reader.feed(event) for event in events)
    reader.close()
    assert passed + reader.held == b"".join(events)
    return reader


def test_text_reasoning_and_usage() -> None:
    reader = run(
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "I "}),
        chunk({"reasoning_content": "think "}),
        chunk({"content": "a"}),
        chunk({"content": "b"}),
        chunk({}, "stop", usage={"prompt_tokens": 1, "completion_tokens": 1}),
        chunk(None, usage={"prompt_tokens": 5, "completion_tokens": 2}),
        DONE,
    )
    assert reader.complete
    assert reader.response() == Response(
        message=AssistantMessage(content="ab", reasoning_content="I think "),
        usage=Usage(prompt_tokens=5, completion_tokens=2),
        id="c1",
        model="m",
    )


def test_the_end_is_held_back() -> None:
    reader = CHAT.reader()
    first, last = chunk({"content": "a"}), chunk({"content": "b"}, "stop")
    assert reader.feed(first) == first
    assert reader.feed(last + chunk(None, usage={"prompt_tokens": 1}) + DONE) == b""
    assert reader.held == last + chunk(None, usage={"prompt_tokens": 1}) + DONE
    assert reader.response().usage == Usage(prompt_tokens=1)
    assert reader.response().text == "ab"


def test_usage_that_was_not_asked_for_is_not_passed_on() -> None:
    reader = CHAT.reader(usage=False)
    last = chunk({"content": '"usage"'}, "stop")
    reader.feed(last + chunk(None, usage={"prompt_tokens": 1}) + DONE)
    reader.close()
    assert reader.held == last + DONE
    assert reader.response().usage == Usage(prompt_tokens=1)


def test_unfinished_events_wait() -> None:
    reader = CHAT.reader()
    event = chunk({"content": "é"})
    assert reader.feed(event[:20]) == b""
    assert reader.feed(event[20:] + b"data: [DO") == event
    assert reader.feed(b"NE]\n\n") == b""
    assert reader.held == DONE
    assert reader.complete


def test_without_done_a_finish_reason_is_enough() -> None:
    assert run(chunk({"content": "a"}), chunk({}, "length")).complete
    assert run(chunk({"content": "a"}), chunk({}, "stop")[:-2]).complete
    assert run(chunk({"content": "a"}), DONE).complete
    cut = run(chunk({"content": "a"}), chunk({"content": "b"}))
    assert not cut.complete
    assert cut.partial_text == "ab"
    empty = run()
    assert not empty.complete
    assert empty.partial_text == ""
    with pytest.raises(ValueError, match="empty"):
        empty.response()


def test_errors_inside_a_stream() -> None:
    error = b'data: {"error": {"message": "overloaded", "code": 529}}\n\n'
    reader = CHAT.reader()
    assert reader.feed(chunk({"content": "a"}) + error) == chunk({"content": "a"})
    reader.feed(DONE)
    reader.close()
    assert reader.error == {"message": "overloaded", "code": 529}
    assert not reader.complete
    assert reader.held == error + DONE
    assert reader.partial_text == "a"


CALLS = {
    "plain": [
        {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"x":'}},
        {"index": 0, "function": {"arguments": " 1}"}},
        {"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ],
    "repeated id and name": [
        {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":'}},
        {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": " 1}"}},
        {"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ],
    "no index": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":'}},
        {"function": {"arguments": " 1}"}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ],
    "no index, repeated id": [
        {"id": "a", "function": {"name": "f", "arguments": '{"x":'}},
        {"id": "a", "function": {"name": "f", "arguments": " 1}"}},
        {"id": "b", "function": {"name": "g", "arguments": "{}"}},
    ],
    "nulls": [
        {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": None}},
        {"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": '{"x": 1}'}},
        {"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ],
    "interleaved": [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x":'}},
        {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{"}},
        {"index": 0, "function": {"arguments": " 1}"}},
        {"index": 1, "function": {"arguments": "}"}},
    ],
    "empty id later": [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x":'}},
        {"index": 0, "id": "", "function": {"name": "", "arguments": " 1}"}},
        {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}},
    ],
}


@pytest.mark.parametrize("fragments", CALLS.values(), ids=CALLS.keys())
def test_tool_calls_are_joined(fragments: list[dict[str, Any]]) -> None:
    reader = run(
        *(chunk({"tool_calls": [fragment]}) for fragment in fragments), chunk({}, "tool_calls"), DONE
    )
    response = reader.response()
    assert response.finish_reason == "tool_calls"
    assert response.message.content is None
    assert [(call.id, call.name, call.parsed) for call in response.message.tool_calls] == [
        ("a", "f", {"x": 1}),
        ("b", "g", {}),
    ]


def test_custom_and_legacy_calls() -> None:
    reader = run(
        chunk(
            {"tool_calls": [{"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}]}
        ),
        chunk({"tool_calls": [{"index": 0, "custom": {"input": "y"}}]}),
        chunk({"function_call": {"name": "old", "arguments": "{"}}),
        chunk({"function_call": {"arguments": "}"}}, "function_call"),
        DONE,
    )
    assert reader.response().message.tool_calls == [
        ToolCall(id="a", type="custom", name="f", arguments="xy"),
        ToolCall(id="", type="function_call", name="old", arguments="{}"),
    ]
    assert reader.response().finish_reason == "tool_calls"


def test_refusal_and_unknown_keys_are_kept() -> None:
    reader = run(
        chunk({"refusal": "I "}),
        chunk({"refusal": "can't", "audio": {"id": "x", "data": "AA"}}),
        chunk({"audio": {"id": "x", "data": "BB"}, "annotations": [{"url": 1}]}),
        chunk({"annotations": [{"url": 2}], "flag": True}, "stop"),
        DONE,
    )
    message = reader.response().message
    assert message.content == [RefusalContentPart(refusal="I can't")]
    assert message.model_extra == {
        "audio": {"id": "x", "data": "AABB"},
        "annotations": [{"url": 1}, {"url": 2}],
        "flag": True,
    }


def test_reasoning_details_are_merged() -> None:
    reader = run(
        chunk({"reasoning": "a", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "a"}]}),
        chunk({"reasoning": "b", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "b"}]}),
        chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "sig"}]}),
        chunk({"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "xx"}]}),
        chunk({"content": "hi"}, "stop"),
        DONE,
    )
    message = reader.response().message
    assert message.reasoning_content == "ab"
    assert message.model_extra == {
        "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "sig"},
            {"type": "reasoning.encrypted", "index": 1, "data": "xx"},
        ]
    }


def test_emoji_split_over_two_events() -> None:
    halves = [rb"\ud83d", rb"\ude00"]
    events = [b'data: {"choices":[{"delta":{"content":"' + half + b'"}}]}\n\n' for half in halves]
    assert run(*events, chunk({}, "stop"), DONE).response().text == "\U0001f600"


def test_unreadable_and_odd_events_pass() -> None:
    reader = run(
        b": hi\n\n",
        b"data: {broken\n\n",
        b"data: 3\n\n",
        b"event: x\ndata: {}\n\n",
        chunk({"content": "a"}),
        DONE,
    )
    assert reader.complete
    assert reader.response().text == "a"
    with pytest.raises(ValueError, match="no readable event"):
        run(b"data: {broken\n\n").response()


texts = st.text(st.characters(codec="utf-8"), max_size=30)
calls = st.builds(ToolCall, id=st.sampled_from(["a", "b"]), name=st.sampled_from(["f", "g"]), arguments=texts)
messages = st.builds(
    AssistantMessage,
    content=st.none() | texts.filter(bool),
    reasoning_content=st.none() | texts.filter(bool),
    tool_calls=st.lists(calls, max_size=2),
)


@settings(max_examples=100, deadline=None)
@given(message=messages, size=st.integers(1, 20), cuts=st.lists(st.integers(1, 200), max_size=30))
def test_what_we_write_we_read(message: AssistantMessage, size: int, cuts: list[int]) -> None:
    reason = "tool_calls" if message.tool_calls else "stop"
    response = Response(
        message=message, finish_reason=reason, usage=Usage(prompt_tokens=1), id="i", model="m"
    )
    events = CHAT.frame_stream(response, "m", 5, size=size)
    assert events[-1] == DONE
    raw = b"".join(events)
    reader = CHAT.reader()
    passed, position = b"", 0
    for step in [*cuts, len(raw)]:
        passed += reader.feed(raw[position : position + step])
        position += step
    reader.close()
    assert passed + reader.held == raw
    assert reader.complete
    found = reader.response()
    if message.content is None and not message.tool_calls:
        message.content = ""
    assert found == response
    assert CHAT.read_response(CHAT.frame(response, "m", 5)) == response
