"""Responses items, replies and streams, read and written."""

from __future__ import annotations

import copy
import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.paths import shared
from support.responses_bodies import BODIES, HOSTED, TOOLS, TURN

from vfnb.dialects import RequestError, Splitter, get
from vfnb.trace.identity import identity, same
from vfnb.types import (
    AssistantMessage,
    OpaqueContentPart,
    Response,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
)

RESPONSES = get("responses")
FILES = ["codex-basic", "codex-mcp", "codex-compact", "codex-e500", "pi-basic-responses"]
FOLDER = shared() / "captures"


def decoded(items: list[Any]) -> list[Any]:
    return RESPONSES.join([m for item in items for m in RESPONSES.decode(json.dumps(item).encode())])


def encoded(messages: list[Any]) -> list[Any]:
    return [json.loads(item) for item in RESPONSES.encode(messages)]


def fields(**body: Any) -> dict[str, msgspec.Raw]:
    return {name: msgspec.Raw(json.dumps(value).encode()) for name, value in body.items()}


# items


def test_a_turn_is_one_message_that_keeps_all_that_came() -> None:
    turn, result = decoded(TURN)
    assert isinstance(turn, AssistantMessage) and isinstance(result, ToolMessage)
    assert (turn.text, turn.reasoning_content) == ("  Running.\n", "I think. ")
    (call,) = turn.tool_calls
    assert (call.id, call.namespace, call.name) == ("call_1", "mcp__calc", "add")
    assert call.arguments == '{"a":  1, "b": 2 }'
    assert (result.tool_call_id, result.text) == ("call_1", "3")
    back = [{key: value for key, value in item.items() if value is not None} for item in TURN]
    assert encoded([turn, result]) == back


def test_instructions_and_a_developer_item_are_the_same_start() -> None:
    said = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Code."}]}
    (first,) = RESPONSES.head(fields(instructions="Code."))
    (second,) = decoded([said])
    assert isinstance(first, SystemMessage) and same(identity(first), identity(second))
    assert RESPONSES.head(fields(instructions=None)) == []


def test_a_string_is_a_user_message() -> None:
    splitter = Splitter(RESPONSES)
    (message,) = RESPONSES.read(splitter.split(b'{"input": "hi"}'))
    (other,) = decoded([{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}])
    assert message.role == "user" and same(identity(message), identity(other))


@pytest.mark.parametrize("item", [3, None, [], {}, {"content": "x"}, {"type": 1}])
def test_what_is_no_item_is_refused(item: Any) -> None:
    with pytest.raises(RequestError, match="input"):
        decoded([item])


def test_the_models_items_do_not_end_its_turn() -> None:
    for item in [
        *TURN[:3],
        *HOSTED,
        {"type": "item_reference", "id": "x"},
        {"id": "x"},
        {"type": "new_kind"},
    ]:
        assert not RESPONSES.closes(msgspec.Raw(json.dumps(item).encode()))
        assert isinstance(decoded([item])[0], AssistantMessage)
    for item in [TURN[3], {"role": "user", "content": "x"}, {"type": "compaction_trigger"}, "text", 7]:
        assert RESPONSES.closes(msgspec.Raw(json.dumps(item).encode()))


def test_state_of_the_provider_does_not_tell_turns_apart_unless_both_have_it() -> None:
    (turn, _), bare = decoded(TURN), copy.deepcopy(TURN)
    del bare[0]["encrypted_content"]
    assert same(identity(turn), identity(decoded(bare)[0]))
    bare[0]["encrypted_content"] = "other"
    assert not same(identity(turn), identity(decoded(bare)[0]))
    one, two = ({"type": "compaction", "encrypted_content": name} for name in "ab")
    assert not same(identity(decoded([one])[0]), identity(decoded([two])[0]))


TEXTS = st.text(max_size=20)
IDS = st.fixed_dictionaries(
    {}, optional={"id": st.text(min_size=1, max_size=6), "status": st.just("completed")}
)
WORDS = st.text(min_size=1, max_size=20)  # an empty message beside a call says nothing
OUTPUT = st.builds(lambda text: {"type": "output_text", "text": text, "annotations": []}, WORDS)
REFUSAL = st.builds(lambda text: {"type": "refusal", "refusal": text}, TEXTS)
ODD = st.builds(lambda text: {"type": "output_other", "x": text}, TEXTS)
SAID = st.builds(
    lambda keys, content: {"type": "message", "role": "assistant", "content": content} | keys,
    IDS,
    st.lists(OUTPUT | REFUSAL | ODD, min_size=1, max_size=3),
)
THOUGHT = st.builds(
    lambda keys, texts, raw, state: {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in texts],
        **({"content": [{"type": "reasoning_text", "text": text} for text in raw]} if raw else {}),
        **({"encrypted_content": state} if state else {}),
        **keys,
    },
    IDS,
    st.lists(TEXTS, max_size=2),
    st.lists(TEXTS, max_size=2),
    TEXTS,
)
CALLS = st.builds(
    lambda keys, call, text, space: (
        {"type": "function_call", "call_id": call, "name": "f", "arguments": text}
        | ({"namespace": space} if space else {})
        | keys
    ),
    IDS,
    TEXTS,
    TEXTS,
    TEXTS,
)
CUSTOM = st.builds(
    lambda keys, text: {"type": "custom_tool_call", "call_id": "c", "name": "p", "input": text} | keys,
    IDS,
    TEXTS,
)
MODELS = st.lists(SAID | THOUGHT | CALLS | CUSTOM | st.sampled_from(HOSTED), min_size=1, max_size=6)
OTHERS = st.sampled_from(
    [item for body in BODIES if isinstance(body["input"], list) for item in body["input"]]
)


@settings(max_examples=100, deadline=None)
@given(MODELS)
def test_turns_survive_writing(items: list[Any]) -> None:
    (turn,) = decoded(items)
    back = encoded([turn])
    assert [item["type"] for item in back] == [item["type"] for item in items]
    assert [item.get("id") for item in back] == [item.get("id") for item in items]
    (again,) = decoded(back)
    assert same(identity(turn), identity(again))
    assert encoded([again]) == back
    for item, told in zip(items, back, strict=True):
        if item["type"] != "message":
            assert told == item


@settings(max_examples=100, deadline=None)
@given(st.lists(OTHERS | SAID | THOUGHT | CALLS, max_size=8))
def test_histories_are_read_in_parts_as_whole(items: list[Any]) -> None:
    whole, _ = RESPONSES.parse_request({"input": items})
    splitter = Splitter(RESPONSES)
    assert RESPONSES.read(splitter.split(json.dumps({"input": items}).encode())) == whole
    again, _ = RESPONSES.parse_request({"input": encoded(whole)})
    assert len(again) == len(whole)
    assert all(same(identity(a), identity(b)) for a, b in zip(whole, again, strict=True))


# tools, settings


def test_tools_of_every_kind() -> None:
    tools = RESPONSES.tools(fields(tools=TOOLS))
    assert [(tool.type, tool.namespace, tool.name) for tool in tools] == [
        ("function", None, "shell"),
        ("function", "mcp__calc", "add"),
        ("custom", None, "apply_patch"),
        ("web_search", None, "web_search"),
    ]
    body = json.loads(RESPONSES.request([], tools, "m", {}, stream=False))
    for told, asked in zip(body["tools"], TOOLS, strict=True):
        assert told["type"] == asked["type"] and told.get("name") == asked.get("name")
    assert body["tools"][2:] == TOOLS[2:]
    assert [tool.model_dump() for tool in RESPONSES.tools(fields(tools=body["tools"]))][1:3] == [
        tool.model_dump() | ({"strict": False} if tool.type == "function" else {}) for tool in tools
    ][1:3]


def test_settings_have_their_canonical_names() -> None:
    asked = RESPONSES.sampling(fields(**BODIES[3]))
    assert asked["max_tokens"] == 100 and asked["temperature"] == 0
    assert asked["tool_choice"] == {"name": "shell"}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}}
    assert asked["response_format"] == form and "text" not in asked
    body = json.loads(RESPONSES.request([], [], "m", asked, stream=True))
    for key in ("max_output_tokens", "text", "tool_choice", "temperature"):
        assert body[key] == BODIES[3][key]
    assert RESPONSES.sampling(fields(**BODIES[2]))["reasoning_effort"] == "low"


def test_the_runs_settings_go_where_the_api_has_them(caplog: pytest.LogCaptureFixture) -> None:
    sampling = {"max_tokens": 5, "reasoning_effort": "high", "top_k": 3, "extra_body": {"x": 1}}
    asked = fields(model="a", reasoning={"effort": "low", "summary": "auto"})
    with caplog.at_level(logging.WARNING, "vfnb.dialects"):
        changes = RESPONSES.override(asked, sampling, "b")
    told = {key: json.loads(value) for key, value in changes.items() if value is not None}
    reasoning = {"effort": "high", "summary": "auto"}
    assert told == {"model": "b", "max_output_tokens": 5, "reasoning": reasoning, "x": 1}
    assert "top_k" not in told


# hosted results


def test_hosted_results_are_read_and_replaced() -> None:
    message = RESPONSES.parse_response({"output": HOSTED}).message
    response = Response(message=message)
    results = RESPONSES.hosted_results(response)
    assert [(one.id, one.tool, one.text) for one in results] == [
        ("ws_1", "web_search", "https://example.com"),
        ("fs_1", "file_search", "found"),
        ("ci_1", "code_interpreter", "1"),
        ("mcp_1", "t", "o"),
    ]
    changed = [one.model_copy(update={"text": f"new {one.tool}"}) for one in results]
    after = RESPONSES.replace_hosted(response, changed)
    assert [one.text for one in RESPONSES.hosted_results(after)] == [one.text for one in changed]
    assert isinstance(message.content, list) and isinstance(message.content[0], OpaqueContentPart)
    assert message.content[0].raw == HOSTED[0]
    assert isinstance(after.message.content, list) and after.message.content[4] == message.content[4]


# replies and streams


@settings(max_examples=100, deadline=None)
@given(MODELS, st.sampled_from(["completed", "incomplete"]), st.integers(1, 40))
def test_a_reply_written_as_a_stream_reads_the_same(items: list[Any], status: str, size: int) -> None:
    body = {"id": "resp_1", "model": "m", "status": status, "output": items, "usage": {"input_tokens": 3}}
    response = RESPONSES.parse_response(body)
    whole = json.loads(RESPONSES.frame(response, "m", 7))
    events = RESPONSES.frame_stream(response, "m", 7, size=size)
    reader = RESPONSES.reader()
    passed = b"".join(reader.feed(event) for event in events)
    reader.close()
    assert passed + reader.held == b"".join(events) and reader.held == events[-1]
    assert reader.complete and same(identity(reader.response().message), identity(response.message))
    told = [json.loads(event.split(b"\ndata: ")[1]) for event in events]
    assert [one["sequence_number"] for one in told] == list(range(len(events)))
    assert told[-1]["response"].keys() == whole.keys() and told[-1]["type"] == f"response.{status}"
    assert all("id" in item for item in whole["output"] if item["type"] in ("message", "reasoning"))
    # without the terminal event the items are what came
    partial = RESPONSES.reader()
    for event in events[:-1]:
        partial.feed(event)
    partial.close()
    assert not partial.complete and same(identity(partial.response().message), identity(response.message))


@settings(max_examples=100, deadline=None)
@given(MODELS, st.data())
def test_a_cut_stream_has_the_text_that_came(items: list[Any], data: st.DataObject) -> None:
    response = RESPONSES.parse_response({"output": items})
    events = RESPONSES.frame_stream(response, "m", size=3)
    reader = RESPONSES.reader()
    for event in events[: data.draw(st.integers(0, len(events) - 1))]:
        reader.feed(event)
    reader.close()
    assert not reader.complete
    assert response.text.startswith(reader.partial_text)


def test_the_terminal_event_wins_over_what_came_before() -> None:
    response = Response(message=AssistantMessage(content="hello"), id="resp_1", usage=Usage(prompt_tokens=1))
    events = RESPONSES.frame_stream(response, "m")
    last = events[-1].replace(b"hello", b"other")
    reader = RESPONSES.reader()
    for event in [*events[:-1], last]:
        reader.feed(event)
    assert reader.response().text == "other"
    empty = json.loads(events[-1].split(b"\ndata: ")[1])
    empty["response"]["output"] = []
    reader = RESPONSES.reader()
    for event in [*events[:-1], b"event: x\ndata: " + json.dumps(empty).encode() + b"\n\n"]:
        reader.feed(event)
    assert reader.complete and reader.response().text == "hello"


def test_arguments_are_byte_for_byte() -> None:
    raw = '{"a":  1,\t"b": "\\u00e9" }'
    call = ToolCall(id="c", name="f", arguments=raw)
    response = Response(message=AssistantMessage(tool_calls=[call]), finish_reason="tool_calls")
    reader = RESPONSES.reader()
    for event in RESPONSES.frame_stream(response, "m", size=2):
        reader.feed(event)
    assert reader.response().message.tool_calls[0].arguments == raw


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the recorded requests are not here")
@pytest.mark.parametrize("name", FILES)
def test_recorded_streams_and_requests(name: str) -> None:
    splitter = Splitter(RESPONSES)
    known = 0
    for number, entry in enumerate(json.loads(Path(FOLDER / f"{name}.json").read_text())["exchanges"]):
        body = json.dumps(entry["body"]).encode()
        split = splitter.split(body)
        whole, tools = RESPONSES.parse_request(entry["body"])
        assert RESPONSES.read(split) == whole[len(whole) - len(RESPONSES.read(split)) :]
        assert RESPONSES.read_tools(split) == (tools or [])
        assert split.assemble({}) is body
        known += split.n_known > 0
        splitter.remember(split, number)
        raw = "".join(entry["sse"] or []).encode() if entry.get("sse") else b""
        for size in (1, 7, len(raw)) if raw else ():
            reader = RESPONSES.reader()
            passed = b"".join(reader.feed(raw[start : start + size]) for start in range(0, len(raw), size))
            reader.close()
            assert passed + reader.held == raw
            assert reader.complete and b"response.completed" in reader.held
            assert reader.response() == RESPONSES.parse_response(entry["response"])
    assert known >= 1
