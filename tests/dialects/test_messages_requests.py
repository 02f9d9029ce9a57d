"""Anthropic Messages: hosted tools, settings, whole requests."""

from __future__ import annotations

import json
import logging
from typing import Any

import msgspec
import pytest
from support.messages_bodies import BODIES

from vfnb.dialects import Splitter, get, messages_sampling
from vfnb.trace.identity import identity
from vfnb.types import (
    AssistantMessage,
    Messages,
    ReasoningContentPart,
    SystemMessage,
    TextContentPart,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
)

MESSAGES = get("messages")


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


# hosted tools


def test_results_of_hosted_tools_are_readable_and_replaceable_if_not_signed() -> None:
    search = {
        "type": "web_search_tool_result",
        "tool_use_id": "s1",
        "content": [
            {"type": "web_search_result", "url": "https://a", "title": "A", "encrypted_content": "e"},
            {"type": "web_search_result", "url": "https://b", "title": "B", "encrypted_content": "f"},
        ],
    }
    document = {"type": "document", "title": "T", "source": {"type": "text", "data": "key: 42"}}
    blocks = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        search,
        {
            "type": "code_execution_tool_result",
            "tool_use_id": "s2",
            "content": {
                "type": "code_execution_result",
                "stdout": "42\n",
                "stderr": "!",
                "return_code": 0,
                "content": [],
            },
        },
        {
            "type": "web_fetch_tool_result",
            "tool_use_id": "s3",
            "content": {"type": "web_fetch_result", "url": "https://c", "content": document},
        },
        {"type": "mcp_tool_use", "id": "s4", "name": "lookup", "server_name": "x", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "s4", "is_error": False, "content": [text("found")]},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s5",
            "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"},
        },
        text("It is 42."),
    ]
    response = MESSAGES.parse_response({"type": "message", "content": blocks})
    found = MESSAGES.hosted_results(response)
    assert [(one.id, one.tool, one.text, one.signed) for one in found] == [
        ("s1", "web_search", "A\nhttps://a\nB\nhttps://b", True),
        ("s2", "code_execution", "42\n!", False),
        ("s3", "web_fetch", "https://c\nT\nkey: 42", False),
        ("s4", "lookup", "found", False),
        ("s5", "web_search", "unavailable", False),
    ]
    changed = [one if one.signed else one.model_copy(update={"text": "gone"}) for one in found]
    new = MESSAGES.replace_hosted(response, changed)
    assert [one.text for one in MESSAGES.hosted_results(new)] == [found[0].text, *["gone"] * 4]
    sent = json.loads(MESSAGES.frame(new, "m"))["content"]
    assert sent[1] == search and sent[-1] == text("It is 42.")
    assert "42" not in json.dumps(sent[2:-1])
    assert [one.text for one in MESSAGES.hosted_results(response)][1] == "42\n!"


# settings


def asked(**keys: Any) -> dict[str, Any]:
    return MESSAGES.sampling({key: msgspec.Raw(json.dumps(value).encode()) for key, value in keys.items()})


def put(settings: dict[str, Any], **keys: Any) -> dict[str, Any]:
    fields = {key: msgspec.Raw(json.dumps(value).encode()) for key, value in keys.items()}
    changes = MESSAGES.override(fields, settings, "")
    return {key: json.loads(value) for key, value in changes.items() if value is not None}


def test_settings_have_canonical_names() -> None:
    schema = {"type": "object"}
    found = asked(
        model="m",
        stream=True,
        max_tokens=5,
        temperature=0.5,
        stop_sequences=["END"],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        output_config={"effort": "high", "format": {"type": "json_schema", "schema": schema}},
        metadata={"user_id": "secret"},
    )
    assert found.pop("output_config")["effort"] == "high"
    assert found.pop("response_format")["json_schema"]["schema"] == schema
    assert found == {
        "max_tokens": 5,
        "temperature": 0.5,
        "stop": ["END"],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "reasoning_effort": "high",
    }
    assert asked(tool_choice={"type": "tool", "name": "f"}) == {"tool_choice": {"name": "f"}}
    assert asked(thinking={"type": "disabled"})["reasoning_effort"] == "none"


def test_the_runs_settings_have_the_wires_names() -> None:
    given: dict[str, Any] = {"max_tokens": 5, "stop": ["END"], "reasoning_effort": "minimal", "top_k": 3}
    assert put(given, output_config={"format": {"a": 1}}) == {
        "max_tokens": 5,
        "stop_sequences": ["END"],
        "top_k": 3,
        "output_config": {"format": {"a": 1}, "effort": "low"},
    }
    assert put({"reasoning_effort": "none"}) == {"thinking": {"type": "disabled"}}
    assert put({"parallel_tool_calls": False}, tool_choice={"type": "tool", "name": "f"}) == {
        "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True}
    }
    assert put({"tool_choice": {"name": "g"}}) == {"tool_choice": {"type": "tool", "name": "g"}}
    assert put({"extra_body": {"min_p": 0.1}}) == {"min_p": 0.1}


def test_settings_that_the_api_does_not_have_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    messages_sampling._reported.clear()
    with caplog.at_level(logging.WARNING, logger="vfnb.dialects"):
        assert put({"seed": 1, "temperature": 0.0}) == {"temperature": 0.0}
        assert put({"seed": 2}) == {}
    assert [record.args for record in caplog.records] == [("seed",)]


# whole requests


def test_a_whole_request() -> None:
    history: Messages = [
        SystemMessage(content="a"),
        SystemMessage(content="b"),
        UserMessage(content="go"),
        AssistantMessage(
            content=[ReasoningContentPart(signature="s"), TextContentPart(text="x")],
            reasoning_content="hm",
            tool_calls=[ToolCall(id="t1", name="f"), ToolCall(id="t2", name="f", arguments='{"a": 1}')],
        ),
        ToolMessage(tool_call_id="t1", content="r1"),
        ToolMessage(tool_call_id="t2", content="r2", is_error=True),
        SystemMessage(content="mid"),
        UserMessage(content="and?"),
    ]
    sampling = {"reasoning_effort": "high", "tool_choice": "required", "extra_body": {"x": 1}}
    body = json.loads(MESSAGES.request(history, [Tool(name="f")], "m", sampling, stream=True))
    messages = body.pop("messages")
    assert body == {
        "model": "m",
        "stream": True,
        "max_tokens": 8192,
        "system": [text("a"), text("b")],
        "tools": [{"name": "f", "description": "", "input_schema": {"type": "object", "properties": {}}}],
        "tool_choice": {"type": "any"},
        "output_config": {"effort": "high"},
        "thinking": {"type": "adaptive"},
        "x": 1,
    }
    assert [item["role"] for item in messages] == ["user", "assistant", "user", "system", "user"]
    assert messages[1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "s"}
    assert [block["tool_use_id"] for block in messages[2]["content"]] == ["t1", "t2"]
    again = MESSAGES.parse_request(body | {"messages": messages})[0]
    assert [identity(one) for one in again[1:]] == [identity(one) for one in history[2:]]
    plain = json.loads(MESSAGES.request(history[:1], [], "m", {"tool_choice": "auto"}, stream=False))
    assert plain == {"model": "m", "max_tokens": 8192, "system": "a", "messages": []}
    thought = AssistantMessage(content="x", reasoning_content="of another model")
    unsigned = json.loads(MESSAGES.request([thought], [], "m", {}, stream=False))
    assert unsigned["messages"] == [{"role": "assistant", "content": [text("x")]}]


def test_bodies_of_real_shape_are_read_and_written_again() -> None:
    for body in BODIES:
        split = Splitter(MESSAGES).split(json.dumps(body).encode())
        messages = MESSAGES.read(split)
        sent = MESSAGES.request(
            messages, MESSAGES.read_tools(split), "m", MESSAGES.sampling(split.fields), stream=False
        )
        again = MESSAGES.read(Splitter(MESSAGES).split(sent))
        assert [identity(one) for one in again] == [identity(one) for one in messages]
