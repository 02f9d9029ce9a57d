"""Sound Anthropic Messages requests, as different from each other as they can be."""

from __future__ import annotations

from typing import Any

__all__ = ["BODIES"]

MARK = {"cache_control": {"type": "ephemeral"}}
TOOLS: list[dict[str, Any]] = [
    {
        "name": "add",
        "description": "Add.",
        "input_schema": {"type": "object", "properties": {}},
        "strict": True,
    },
    {"type": "custom", "name": "sub", "input_schema": {"type": "object"}, "defer_loading": True, **MARK},
    {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
    {"type": "mcp_toolset", "mcp_server_name": "x"},
]
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1, "b": [1.0, {"c": "é"}]}}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "e"}],
}


def body(*messages: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"model": "claude-x", "max_tokens": 100, "messages": list(messages), **keys}


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(value: str, **keys: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **keys}


def result(content: Any, **keys: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **keys}


THINKING = {"type": "thinking", "thinking": "Hm. ", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "ZW5j"}

BODIES: list[dict[str, Any]] = [
    body({"role": "user", "content": "hi"}),
    body({"role": "user", "content": "hi"}, stream=True, system="Be brief.", temperature=0.5, top_k=5),
    body(
        user(text("a"), text("b", **MARK)),
        {"role": "system", "content": [text("mid", **MARK)]},
        assistant(THINKING, text("  Running.\n"), CALL),
        user(result("out", is_error=False, **MARK)),
        system=[text("x-anthropic-billing-header: cc=1;"), text("You are", **MARK)],
        tools=TOOLS,
        stream=True,
        thinking={"type": "adaptive", "display": "omitted"},
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        output_config={"effort": "high"},
        metadata={"user_id": '{"device_id":"0"}'},
    ),
    body(
        user(text("go")),
        assistant(THINKING, CALL, {**CALL, "id": "toolu_2", "input": {}}),
        user(result([text("r"), IMAGE]), text("and"), result("late", is_error=True), text("compact now")),
        assistant(text("part", citations=None)),
        {"role": "user", "content": "more"},
        tools=TOOLS[:1],
        tool_choice={"type": "tool", "name": "add", "disable_parallel_tool_use": True},
        stop_sequences=["END"],
    ),
    body(
        user(
            IMAGE,
            {"type": "image", "source": {"type": "url", "url": "https://a.example/x.png"}},
            {"type": "document", "source": PDF, "title": "t", "citations": {"enabled": True}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}},
            {"type": "document", "source": {"type": "file", "file_id": "f"}},
            {"type": "search_result", "source": "s", "title": "t", "content": [text("found")]},
            text("what?"),
        ),
        stream=True,
        output_config={"format": {"type": "json_schema", "schema": {"type": "object"}}},
    ),
    body(
        {"role": "user", "content": "search"},
        assistant(
            HIDDEN, text("Looking."), SEARCH, FOUND, text("It is so.", citations=[{"cited_text": "so"}])
        ),
        {"role": "user", "content": "sure?"},
        tools=TOOLS[2:],
        container={"id": "c"},
        mcp_servers=[{"type": "url", "url": "https://a.example", "name": "x"}],
        service_tier="auto",
        thinking={"type": "enabled", "budget_tokens": 1024},
    ),
]
