"""Anthropic Messages to canonical messages and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fuzz import mutant
from support.messages_bodies import BODIES
from support.messages_upstream import Blocks, message, message_events

from vfnb.dialects import RequestError, Splitter, get
from vfnb.trace.identity import identity, same
from vfnb.types import (
    AssistantMessage,
    FileContentPart,
    FileSource,
    ImageUrlContentPart,
    Message,
    Messages,
    OpaqueContentPart,
    OtherMessage,
    Response,
    TextContentPart,
    Tool,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)

MESSAGES = get("messages")
MARK = {"cache_control": {"type": "ephemeral"}}


def read(*items: Any) -> Messages:
    return [found for item in items for found in MESSAGES.decode(json.dumps(item).encode())]


def one(item: Any) -> Message:
    (found,) = read(item)
    return found


def written(*messages: Message) -> list[Any]:
    return [json.loads(raw) for raw in MESSAGES.encode(list(messages))]


def answer(*blocks: dict[str, Any]) -> AssistantMessage:
    found = one({"role": "assistant", "content": list(blocks)})
    assert isinstance(found, AssistantMessage)
    return found


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def call(**keys: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}, **keys}


def result(content: Any = "r", **keys: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t1", "content": content, **keys}


# reading


def test_a_user_message_splits_into_results_and_the_rest() -> None:
    item = {"role": "user", "content": [result(), text("a"), result("s", is_error=True), text("b")]}
    first, second, rest = read(item)
    assert first == ToolMessage(tool_call_id="t1", content="r")
    assert second == ToolMessage(tool_call_id="t1", content="s", is_error=True)
    assert rest == UserMessage(content=[TextContentPart(text="a"), TextContentPart(text="b")])


def test_results_keep_images_documents_and_what_is_not_known() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    found = one({"role": "user", "content": [result([text("x"), image, {"type": "tool_reference", "n": 1}])]})
    assert isinstance(found, ToolMessage) and isinstance(found.content, list)
    assert [part.type for part in found.content] == ["text", "image_url", "opaque"]
    assert isinstance(found.content[1], ImageUrlContentPart)
    assert found.content[1].image_url.url == "data:image/png;base64,AA=="
    assert isinstance(found.content[2], OpaqueContentPart) and found.content[2].raw["n"] == 1
    assert one({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}).text == ""


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({"role": "user", "content": "x"}, {"role": "user", "content": [text("x")]}),
        ({"role": "user", "content": [text("x") | MARK]}, {"role": "user", "content": [text("x")]}),
        ({"role": "system", "content": [text("x") | MARK]}, {"role": "system", "content": "x"}),
        (
            {"role": "user", "content": [result([text("r")], is_error=False, **MARK)]},
            {"role": "user", "content": [result("r")]},
        ),
        ({"role": "assistant", "content": "x"}, {"role": "assistant", "content": [text("x")]}),
        (
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "h ", "signature": "s"}, call()],
            },
            {"role": "assistant", "content": [call(**MARK)]},
        ),
        (
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "h ", "signature": "s"}, call()],
            },
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "h", "signature": ""}, call()],
            },
        ),
        (
            {"role": "assistant", "content": [text("x") | {"citations": None}]},
            {"role": "assistant", "content": [text("x")]},
        ),
    ],
)
def test_the_same_turn_in_another_form(a: Any, b: Any) -> None:
    assert same(identity(one(a)), identity(one(b)))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({"role": "user", "content": "x"}, {"role": "user", "content": "x "}),
        (
            {"role": "user", "content": [result("r")]},
            {"role": "user", "content": [result("r", is_error=True)]},
        ),
        ({"role": "assistant", "content": [call()]}, {"role": "assistant", "content": [call(id="t2")]}),
        (
            {"role": "assistant", "content": [call()]},
            {"role": "assistant", "content": [call(input={"a": 2})]},
        ),
        (
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "h", "signature": "s"}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "i", "signature": "s"}]},
        ),
        ({"role": "user", "content": "x"}, {"role": "system", "content": "x"}),
    ],
)
def test_another_turn(a: Any, b: Any) -> None:
    assert not same(identity(one(a)), identity(one(b)))


def test_the_billing_block_is_kept_and_is_no_part_of_identity() -> None:
    def system(number: int) -> bytes:
        billing = text(f"x-anthropic-billing-header: cc_version=2.{number};")
        body = {"system": [billing, text("You are")], "messages": [{"role": "user", "content": "x"}]}
        return json.dumps(body).encode()

    splits = [Splitter(MESSAGES).split(system(number)) for number in (1, 2)]
    first, second = (MESSAGES.read(split)[0] for split in splits)
    assert first.text == "x-anthropic-billing-header: cc_version=2.1;You are"
    assert same(identity(first), identity(second))


@pytest.mark.parametrize("value", [None, "", []])
def test_no_system_message_without_text(value: Any) -> None:
    body = json.dumps({"system": value, "messages": [{"role": "user", "content": "x"}]}).encode()
    assert [found.role for found in MESSAGES.read(Splitter(MESSAGES).split(body))] == ["user"]


def test_the_text_of_arguments_stays_as_it_is() -> None:
    block = rb'{"type":"tool_use","id":"t","name":"f","input":{"a" :  "\u00e9", "b":1.0}}'
    raw = b'{"role":"assistant","content":[' + block + b"]}"
    (found,) = MESSAGES.decode(raw)
    assert isinstance(found, AssistantMessage)
    assert found.tool_calls[0].arguments == r'{"a" :  "\u00e9", "b":1.0}'
    reply = raw.replace(b'"role"', b'"type":"message","role"')
    assert MESSAGES.read_response(reply).message.tool_calls[0].arguments == found.tool_calls[0].arguments


def test_documents_are_files() -> None:
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "AA=="}
    documents = [
        {"type": "document", "source": pdf, "title": "t", "context": "c"},
        {"type": "document", "source": {"type": "url", "url": "https://a.example/x.pdf"}},
        {"type": "document", "source": {"type": "file", "file_id": "f1"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
    ]
    item = {"role": "user", "content": documents}
    found = one(item)
    assert isinstance(found.content, list)
    assert found.content[:3] == [
        FileContentPart(
            file=FileSource(file_data="data:application/pdf;base64,AA==", filename="t"), context="c"
        ),  # type: ignore[call-arg]
        FileContentPart(file=FileSource(file_url="https://a.example/x.pdf")),
        FileContentPart(file=FileSource(file_id="f1")),
    ]
    assert found.content[3].type == "opaque"
    assert written(found) == [item]


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"content": "x"}, "object with a role"),
        ({"role": "user", "content": 3}, "must be a string or a list"),
        ({"role": "tool", "content": "x"}, "tool_result block"),
        ({"role": "user", "content": [result(3)]}, "content of a tool_result"),
    ],
)
def test_what_is_no_message_is_refused(item: Any, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        read(item)


def test_roles_that_are_not_known_are_kept() -> None:
    assert one({"role": "critic", "content": "x"}) == OtherMessage(role="critic", content="x")


# tools


def test_tools_of_the_program_and_of_the_provider() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    plain = {"name": "f", "description": "d", "input_schema": schema}
    body = {
        "tools": [
            plain | MARK,
            {"type": "custom", "name": "g", "input_schema": {}, "strict": True},
            plain | {"defer_loading": True} | MARK,
            {"type": "web_search_20250305", "name": "web_search"},
            {"type": "mcp_toolset", "mcp_server_name": "s"},
        ]
    }
    found = MESSAGES.parse_request(body)[1]
    assert found is not None
    assert found[0] == Tool(name="f", description="d", parameters=schema)
    assert found[1] == Tool(name="g", strict=True)
    assert found[2].raw == plain | {"defer_loading": True} and found[2].type == "function"
    assert [tool.type for tool in found[3:]] == ["web_search_20250305", "mcp_toolset"]
    sent = json.loads(MESSAGES.request([UserMessage(content="x")], found, "m", {}, stream=False))["tools"]
    assert sent[0] == plain
    assert sent[1]["input_schema"]["type"] == "object" and sent[1]["strict"] is True
    assert sent[2:] == [plain | {"defer_loading": True}, *body["tools"][3:]]


def test_tools_that_only_another_provider_runs_are_left_out() -> None:
    tools = [Tool(name="web_search", type="web_search", raw={"type": "web_search"}), Tool(name="f")]
    sent = json.loads(MESSAGES.request([UserMessage(content="x")], tools, "m", {}, stream=False))
    assert [tool["name"] for tool in sent["tools"]] == ["f"]


# there and back

words = st.text(max_size=12)
cached = st.sampled_from([{}, MARK])
said = st.builds(lambda value, more: text(value) | more, words, cached)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
images = st.sampled_from(
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
        {"type": "image", "source": {"type": "url", "url": "https://a.example/x.png"}},
        {"type": "image", "source": {"type": "file", "file_id": "f"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
        {"type": "search_result", "source": "s", "title": "t", "content": [text("x")]},
    ]
)
results = st.builds(
    lambda content, failed: result(content, **({"is_error": True} if failed else {})),
    words | st.lists(said | images, max_size=3),
    st.booleans(),
)
thoughts = st.one_of(
    st.builds(lambda a, b: {"type": "thinking", "thinking": a, "signature": b}, words, words.filter(bool)),
    st.builds(lambda a: {"type": "redacted_thinking", "data": a}, words),
)
calls = st.builds(lambda value: call(input=value), st.dictionaries(words, values, max_size=3))
hosted = st.sampled_from(
    [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"encrypted_content": "e"}]},
    ]
)
spoken = st.lists(
    thoughts | said.filter(lambda block: block["text"] != "") | calls | hosted, min_size=1, max_size=6
)


@settings(max_examples=60, deadline=None)
@given(spoken)
def test_an_answer_comes_back_block_by_block(blocks: list[dict[str, Any]]) -> None:
    found = answer(*blocks)
    assert written(found) == [{"role": "assistant", "content": blocks}]
    response = Response(message=found, finish_reason="tool_calls" if found.tool_calls else "stop", id="msg_1")
    whole = MESSAGES.frame(response, "m")
    assert json.loads(whole)["content"] == blocks
    assert MESSAGES.read_response(whole).message == found


@settings(max_examples=60, deadline=None)
@given(spoken, st.integers(1, 20), st.integers(1, 40))
def test_a_stream_says_what_the_whole_reply_says(blocks: list[dict[str, Any]], size: int, cut: int) -> None:
    usage = Usage(prompt_tokens=9, completion_tokens=4, cached_tokens=2)
    found = answer(*blocks)
    response = Response(message=found, finish_reason="length", usage=usage, id="msg_1", model="m")
    events = MESSAGES.frame_stream(response, "m", size=size)
    stream = b"".join(events)
    reader = MESSAGES.reader()
    passed = b"".join(reader.feed(stream[start : start + cut]) for start in range(0, len(stream), cut))
    reader.close()
    assert reader.complete and passed + reader.held == stream
    assert reader.held == b"".join(events[-2:])
    got = reader.response()
    for a, b in zip(got.message.tool_calls, found.tool_calls, strict=True):
        assert a.parsed == b.parsed
        a.arguments = b.arguments
    assert got == response


@settings(max_examples=60, deadline=None)
@given(st.lists(results | said | images, min_size=1, max_size=6))
def test_a_user_item_is_rewritten_in_place(blocks: list[dict[str, Any]]) -> None:
    item = {"role": "user", "content": blocks}
    raw = json.dumps(item).encode()
    found = MESSAGES.decode(raw)
    again = json.loads(MESSAGES.rewrite(raw, found))
    assert [identity(one) for one in read(again)] == [identity(one) for one in found]
    changed: Messages = [
        one.model_copy(update={"content": f"new {place}"}) for place, one in enumerate(found)
    ]
    new = json.loads(MESSAGES.rewrite(raw, changed))
    assert [(one.role, one.text) for one in read(new)] == [(one.role, one.text) for one in changed]
    places = [place for place, block in enumerate(blocks) if block["type"] == "tool_result"]
    kinds = [block["type"] for block in new["content"]] if isinstance(new["content"], list) else []
    assert kinds.count("tool_result") == len(places)


def test_arguments_that_are_no_object_are_wrapped_and_unwrapped() -> None:
    for broken in ('{"a": ', "[1]", "3", "text"):
        spoken = AssistantMessage(content=None, tool_calls=[ToolCall(id="t", name="f", arguments=broken)])
        response = Response(message=spoken, finish_reason="tool_calls")
        body = json.loads(MESSAGES.frame(response, "m"))
        assert body["content"][0]["input"] == {"INVALID_JSON": broken}
        echoed = one({"role": "assistant", "content": body["content"]})
        assert same(identity(echoed), identity(spoken))
    empty = AssistantMessage(content=None, tool_calls=[ToolCall(id="t", name="f")])
    assert json.loads(MESSAGES.frame(Response(message=empty), "m"))["content"][0]["input"] == {}


def test_reasoning_of_other_models_is_thinking_without_a_signature() -> None:
    spoken = AssistantMessage(content="x", reasoning_content="hm")
    blocks = json.loads(MESSAGES.frame(Response(message=spoken), "m"))["content"]
    assert blocks == [{"type": "thinking", "thinking": "hm", "signature": ""}, text("x")]
    assert answer(*blocks) == spoken


def test_lone_surrogates_come_through() -> None:
    spoken = AssistantMessage(
        content="a\ud83d", tool_calls=[ToolCall(id="t", name="f", arguments='{"a": "\ud83d"}')]
    )
    response = Response(message=spoken, finish_reason="tool_calls")
    assert json.loads(MESSAGES.frame(response, "m"))["content"][0]["text"] == "a\ud83d"
    reader = MESSAGES.reader()
    reader.feed(b"".join(MESSAGES.frame_stream(response, "m", size=1)))
    assert reader.response().text == "a\ud83d"
    raw = rb'{"role":"user","content":[{"type":"text","text":"cut \ud83d"}]}'
    assert MESSAGES.decode(raw)[0].text == "cut \ud83d"


# streams


def events(*blocks: dict[str, Any], **keys: Any) -> list[bytes]:
    return message_events(Blocks(blocks=list(blocks), **keys), "m")


def test_a_stream_without_its_end_is_cut_and_keeps_what_came() -> None:
    sent = events(text("Hello there"), call())
    for count in range(len(sent)):
        reader = MESSAGES.reader()
        reader.feed(b"".join(sent[:count]))
        reader.close()
        assert not reader.complete
        assert "Hello there".startswith(reader.partial_text)
    assert reader.response().message.tool_calls[0].arguments == '{"a": 1}'
    with pytest.raises(ValueError, match="the stream is empty"):
        MESSAGES.reader().response()


def test_the_end_is_held_back_from_the_stop_reason_on() -> None:
    sent = events(text("Hello"))
    reader = MESSAGES.reader()
    assert b"".join(reader.feed(one) for one in sent) == b"".join(sent[:-2])
    assert reader.held == b"".join(sent[-2:]) and reader.complete


def test_pings_comments_and_unknown_events_pass_through() -> None:
    sent = events(text("Hello"))
    odd = [b"event: ping\ndata: {}\n\n", b": comment\n\n", b'event: new\ndata: {"type": "new", "x": 1}\n\n']
    stream = [*sent[:2], *odd, *sent[2:4], b"data: nonsense\n\n", *sent[4:]]
    reader = MESSAGES.reader()
    passed = b"".join(reader.feed(one) for one in stream)
    assert passed + reader.held == b"".join(stream)
    assert reader.complete and reader.response().text == "Hello"


def test_counts_of_start_and_end_are_put_together() -> None:
    usage = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 100,
        "output_tokens": 7,
    }
    reader = MESSAGES.reader()
    reader.feed(b"".join(events(text("x"), usage=usage)))
    expected = Usage(prompt_tokens=123, cached_tokens=100, completion_tokens=7)
    assert reader.response().usage == expected
    assert MESSAGES.parse_response(message(Blocks(usage=usage), "m")).usage == expected


def test_an_error_event_ends_the_stream() -> None:
    reader = MESSAGES.reader()
    reader.feed(b"".join(events(text("Hello"))[:4]) + MESSAGES.stream_error(529, "busy"))
    reader.close()
    assert not reader.complete
    assert reader.error == {"type": "overloaded_error", "message": "busy"}
    assert reader.held.startswith(b"event: error\n")


REPLIES: Sequence[dict[str, Any]] = [
    message(Blocks(blocks=item["content"]), "m")
    for body in BODIES
    for item in body["messages"]
    if item["role"] == "assistant"
]


def test_odd_replies_are_read_or_refused() -> None:
    read = 0
    for number in range(600):
        try:
            raw = mutant(REPLIES, number)
            response = MESSAGES.read_response(raw)
        except (ValueError, RecursionError):
            continue
        read += 1
        MESSAGES.frame(response, "m")
        MESSAGES.frame_stream(response, "m")
        found = MESSAGES.hosted_results(response)
        changed = [one.model_copy(update={"text": "new"}) for one in found]
        assert [one.text for one in MESSAGES.hosted_results(MESSAGES.replace_hosted(response, changed))] == [
            "new" for one in found
        ]
    assert read > 200
