"""What is the same turn and what is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfnb.trace import content, decode_content, identity, same
from vfnb.types import (
    AssistantMessage,
    FileContentPart,
    FileSource,
    Message,
    OpaqueContentPart,
    OtherMessage,
    ReasoningContentPart,
    SystemMessage,
    TextContentPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)


def text(value: str, **extra: Any) -> TextContentPart:
    return TextContentPart(text=value, **extra)


def call(arguments: str = "{}", id: str = "c1", name: str = "bash", **extra: Any) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments, **extra)


def said(content: Any = None, *calls: ToolCall, **extra: Any) -> AssistantMessage:
    return AssistantMessage(content=content, tool_calls=list(calls), **extra)


def reason(value: str, **state: str) -> ReasoningContentPart:
    return ReasoningContentPart(text=value, **state)


SAME: dict[str, tuple[Message, Message]] = {
    "string and one part": (UserMessage(content="a"), UserMessage(content=[text("a")])),
    "cache marker on a part": (
        UserMessage(content=[text("a", cache_control={"type": "ephemeral"})]),
        UserMessage(content="a"),
    ),
    "cache marker on a message": (
        SystemMessage(content="a", cache_control={"t": 1}),
        SystemMessage(content="a"),
    ),
    "cache marker in an opaque part": (
        UserMessage(content=[OpaqueContentPart(raw={"type": "x", "v": [{"cache_control": 1, "w": 2}]})]),
        UserMessage(content=[OpaqueContentPart(raw={"v": [{"w": 2}], "type": "x"})]),
    ),
    "annotations, id and status": (
        said([text("a", annotations=[], id="m1")], status="completed", id="x"),
        said("a"),
    ),
    "refusal null and audio null": (said("a", refusal=None, audio=None, function_call=None), said("a")),
    "passthrough metadata": (
        UserMessage(content="a", internal_chat_message_metadata_passthrough={"turn": 1}),
        UserMessage(content="a"),
    ),
    "vendor fields of a reply": (
        said("a", provider_specific_fields={"x": 1}, annotations=[{"u": 1}]),
        said("a"),
    ),
    "content null, missing and empty with calls": (said(None, call()), said("", call())),
    "empty list with calls": (said([], call()), said([text("")], call())),
    "argument spacing, order and escapes": (
        said(None, call('{"b":  "caf\\u00e9", "a": 1.0 }')),
        said(None, call('{"a":1,"b":"café"}')),
    ),
    "empty arguments": (said(None, call("")), said(None, call("{}"))),
    "index on a call": (said(None, call(index=0)), said(None, call())),
    "reasoning absent": (said("a", reasoning_content="think"), said("a")),
    "reasoning empty": (said("a", reasoning_content="think"), said("a", reasoning_content="")),
    "reasoning stripped": (said("a", reasoning_content="think \n"), said("a", reasoning_content="think")),
    "reasoning as part": (said([reason("think"), text("a")]), said("a", reasoning_content="think")),
    "signature lost": (said([reason("t", signature="S"), text("a")]), said([reason("t"), text("a")])),
    "encrypted reasoning lost": (said([reason("", encrypted="E"), text("a")]), said("a")),
    "billing block": (
        SystemMessage(content=[text("x-anthropic-billing-header: cc_version=1.9f5;"), text("b"), text("c")]),
        SystemMessage(content=[text("x-anthropic-billing-header: cc_version=1.cf6;"), text("b"), text("c")]),
    ),
    "is_error missing": (
        ToolMessage(tool_call_id="1", content="x"),
        ToolMessage(tool_call_id="1", content=[text("x")], is_error=False),
    ),
}
DIFFERENT: dict[str, tuple[Message, Message]] = {
    "role": (UserMessage(content="a"), SystemMessage(content="a")),
    "text": (UserMessage(content="a"), UserMessage(content="b")),
    "white space": (said(" a\n"), said("a")),
    "number of parts": (UserMessage(content=[text("a"), text("b")]), UserMessage(content="ab")),
    "order of parts": (
        UserMessage(content=[text("a"), text("b")]),
        UserMessage(content=[text("b"), text("a")]),
    ),
    "name of the speaker": (UserMessage(content="a", name="x"), UserMessage(content="a", name="y")),
    "title of a document": (
        UserMessage(content=[FileContentPart(file=FileSource(file_id="1"), title="x")]),
        UserMessage(content=[FileContentPart(file=FileSource(file_id="1"), title="y")]),
    ),
    "file": (
        UserMessage(content=[FileContentPart(file=FileSource(file_id="1"))]),
        UserMessage(content=[FileContentPart(file=FileSource(file_id="2"))]),
    ),
    "tool name": (said(None, call()), said(None, call(name="sh"))),
    "namespace": (said(None, call()), said(None, call(namespace="mcp__x"))),
    "call id": (said(None, call()), said(None, call(id="c2"))),
    "argument value": (said(None, call('{"a": 1}')), said(None, call('{"a": 2}'))),
    "true is not one": (said(None, call('{"a": 1}')), said(None, call('{"a": true}'))),
    "broken arguments": (said(None, call('{"a": ')), said(None, call('{"a":'))),
    "free text input": (said(None, call("x ", type="custom")), said(None, call("x", type="custom"))),
    "presence of a call": (said("a", call()), said("a")),
    "two reasonings": (said("a", reasoning_content="x"), said("a", reasoning_content="y")),
    "leading space of reasoning": (said("a", reasoning_content=" x"), said("a", reasoning_content="x")),
    "two signatures": (said([reason("t", signature="S")]), said([reason("t", signature="T")])),
    "result id": (ToolMessage(tool_call_id="1", content="x"), ToolMessage(tool_call_id="2", content="x")),
    "is_error": (
        ToolMessage(tool_call_id="1", content="x"),
        ToolMessage(tool_call_id="1", content="x", is_error=True),
    ),
    "unknown roles": (OtherMessage(role="critic", content="x"), OtherMessage(role="judge", content="x")),
}


@pytest.mark.parametrize("name", SAME)
def test_noise(name: str) -> None:
    a, b = map(identity, SAME[name])
    assert same(a, b)
    assert same(b, a)


@pytest.mark.parametrize("name", DIFFERENT)
def test_signal(name: str) -> None:
    a, b = map(identity, DIFFERENT[name])
    assert not same(a, b)
    assert not same(b, a)


def test_identity_is_small() -> None:
    found = identity(said([reason("r", signature="S"), text("a")], call('{"x": 1}')))
    assert [len(part or b"") for part in found] == [16, 16, 16]
    assert identity(UserMessage(content="a"))[1:] == (None, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.text("abcxyz_", min_size=3, max_size=6).filter(lambda key: not hasattr(AssistantMessage, key))


@given(st.text(max_size=40), st.dictionaries(KEYS, JSON, max_size=3))
def test_content_loses_nothing(value: str, extra: dict[str, Any]) -> None:
    for message in (
        said([text(value, **extra), reason(value, encrypted="E")], call(value, **extra), **extra),
        UserMessage(content=value, **extra),
        OtherMessage(role="x" + value, content=value, **extra),
        ToolMessage(tool_call_id="1", content=[OpaqueContentPart(raw=extra)], is_error=True),
    ):
        key, raw = content(message)
        assert len(key) == 16
        back = decode_content(raw)
        assert back == message
        assert type(back) is type(message)
        assert content(back) == (key, raw)
        assert identity(back) == identity(message)


@pytest.mark.parametrize("value", ['é"\\/\x00\x1f\x7f\u2028😀\n', "cut \ud83d"])
def test_content_of_long_texts(value: str) -> None:
    for message in (
        UserMessage(content=value * 2000, more=[1.5, None, {"a": 10**30}]),
        said([text(value * 2000, more={}), reason(value, encrypted="E")], call(value), more="x"),
    ):
        raw = content(message)[1]
        assert decode_content(raw) == message
        assert json.loads(raw) == json.loads(json.dumps(message.model_dump()))


def test_half_of_a_surrogate_pair_survives() -> None:
    message = UserMessage.model_construct(role="user", content="cut \ud83d")
    key, raw = content(message)
    assert raw.isascii()
    assert decode_content(raw).text == "cut \ud83d"
    assert content(decode_content(raw)) == (key, raw)
    assert identity(decode_content(raw)) == identity(message)
