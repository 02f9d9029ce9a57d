"""Recorded requests of real programs as canonical messages, by small converters of this file's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from support.graphs import Recorder
from support.paths import shared
from vfnb.types import (
    AssistantMessage,
    Message,
    ReasoningContentPart,
    SystemMessage,
    TextContentPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

__all__ = ["Exchange", "exchanges", "replay"]


@dataclass
class Exchange:
    """One recorded call: what was sent and what came back (None for a failed call)."""

    messages: list[Message]
    reply: AssistantMessage | None
    tools: list[dict[str, Any]]
    status: int = 200
    partial: str | None = None
    markers: dict[str, str] = field(default_factory=dict)


@cache
def _capture(name: str) -> dict[str, Any]:
    path = shared() / "captures" / f"{name}.json"
    if not path.exists():
        pytest.skip(f"{path} is not here; set VFNB_SHARED to the folder that has captures/")
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def exchanges(name: str) -> Iterator[Exchange]:
    """The model calls of a capture, in order."""
    for item in _capture(name)["exchanges"]:
        body = item.get("body")
        if item["method"] != "POST" or not isinstance(body, dict):
            continue
        path, failed = item["path"], item["status"] != 200
        if path.endswith("/responses"):
            messages, read = responses_request(body), responses_reply
        elif path.endswith("/messages"):
            messages, read = messages_request(body), messages_reply
        else:
            messages, read = [chat(message) for message in body["messages"]], chat_reply
        cut = item.get("note") == "cut"
        yield Exchange(
            messages,
            None if failed or cut else read(item["response"]),
            body.get("tools") or [],
            item["status"],
            _partial(item["sse"]) if cut else None,
            _markers(dict(item["headers"])),
        )


def _markers(headers: dict[str, str]) -> dict[str, str]:
    markers = {}
    if "x-claude-code-agent-id" in headers:
        markers["agent"] = headers["x-claude-code-agent-id"]
    if "x-codex-turn-metadata" in headers:
        kind = json.loads(headers["x-codex-turn-metadata"])["request_kind"]
        if kind == "compaction":
            markers["kind"] = kind
    return markers


def _partial(events: list[str]) -> str:
    text = ""
    for event in events:
        data = json.loads(event.removeprefix("data: "))
        text += data["choices"][0]["delta"].get("content") or ""
    return text


def _parts(content: Any) -> Any:
    if isinstance(content, list):
        kinds = ("text", "input_text", "output_text")
        return [{**part, "type": "text"} if part["type"] in kinds else part for part in content]
    return content


def chat(message: dict[str, Any]) -> Message:
    """A Chat Completions message."""
    role = message["role"]
    content = _parts(message.get("content"))
    if role in ("system", "developer"):
        return SystemMessage(content=content)
    if role == "user":
        return UserMessage(content=content)
    if role == "tool":
        return ToolMessage(tool_call_id=message["tool_call_id"], content=content)
    calls = [
        ToolCall(id=call["id"], type=call["type"], **call["function"])
        for call in message.get("tool_calls") or []
    ]
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    return AssistantMessage(content=content, reasoning_content=reasoning, tool_calls=calls)


def chat_reply(response: dict[str, Any]) -> AssistantMessage:
    """The message of a Chat Completions reply."""
    message = chat(response["choices"][0]["message"])
    assert isinstance(message, AssistantMessage)
    return message


def responses_request(body: dict[str, Any]) -> list[Message]:
    """`instructions` and `input` of a Responses request; assistant-side items in a row are one turn."""
    found: list[Message] = []
    if body.get("instructions"):
        found.append(SystemMessage(content=body["instructions"]))
    turn: list[dict[str, Any]] = []
    for item in body["input"]:
        kind, role = item.get("type", "message"), item.get("role")
        if kind in ("reasoning", "function_call") or role == "assistant":
            turn.append(item)
            continue
        if turn:
            found.append(responses_turn(turn))
            turn = []
        if kind == "function_call_output":
            found.append(ToolMessage(tool_call_id=item["call_id"], content=_parts(item["output"])))
        else:
            found.append(chat({"role": role, "content": item["content"]}))
    return [*found, responses_turn(turn)] if turn else found


def responses_turn(items: list[dict[str, Any]]) -> AssistantMessage:
    """Assistant-side items as one message."""
    content: list[Any] = []
    calls = []
    for item in items:
        if item["type"] == "reasoning":
            text = "".join(part["text"] for part in item["summary"])
            content.append(ReasoningContentPart(text=text, encrypted=item.get("encrypted_content")))
        elif item["type"] == "function_call":
            calls.append(
                ToolCall(
                    id=item["call_id"],
                    name=item["name"],
                    arguments=item["arguments"],
                    namespace=item.get("namespace"),
                )
            )
        else:
            content += [TextContentPart(text=part["text"]) for part in item["content"]]
    return AssistantMessage(content=content, tool_calls=calls)


def responses_reply(response: dict[str, Any]) -> AssistantMessage:
    """The output of a Responses reply."""
    return responses_turn(response["output"])


def messages_request(body: dict[str, Any]) -> list[Message]:
    """`system` and `messages` of a Messages request; tool results come apart from the rest of a user message."""
    found: list[Message] = []
    if body.get("system"):
        found.append(SystemMessage(content=_parts(body["system"])))
    for message in body["messages"]:
        content = message["content"]
        if message["role"] == "assistant":
            found.append(messages_turn(content))
        elif isinstance(content, str) or message["role"] == "system":
            found.append(chat({"role": message["role"], "content": content}))
        else:
            results = [block for block in content if block["type"] == "tool_result"]
            rest = [block for block in content if block["type"] != "tool_result"]
            found += [
                ToolMessage(
                    tool_call_id=block["tool_use_id"],
                    content=_parts(block["content"]),
                    is_error=block.get("is_error", False),
                )
                for block in results
            ]
            if rest:
                found.append(UserMessage(content=_parts(rest)))
    return found


def messages_turn(content: Any) -> AssistantMessage:
    """Assistant blocks as one message."""
    if isinstance(content, str):
        return AssistantMessage(content=content)
    parts: list[Any] = []
    calls = []
    for block in content:
        if block["type"] == "thinking":
            parts.append(ReasoningContentPart(text=block["thinking"], signature=block["signature"]))
        elif block["type"] == "tool_use":
            calls.append(ToolCall(id=block["id"], name=block["name"], arguments=json.dumps(block["input"])))
        else:
            parts.append(TextContentPart(**block))
    return AssistantMessage(content=parts, tool_calls=calls)


def messages_reply(response: dict[str, Any]) -> AssistantMessage:
    """The blocks of a Messages reply."""
    return messages_turn(response["content"])


def replay(name: str, *, markers: bool = True) -> Recorder:
    """Feed a capture. Long texts in it are cut; the summary that codex and claude-code carry over is put back."""
    recorder = Recorder()
    for exchange in exchanges(name):
        messages = [
            UserMessage(content=f"{message.text}\nSUMMARY: steps 0 and 1 were printed; next: answer.")
            if message.text.startswith(("This session is being continued", "Another language model started"))
            else message
            for message in exchange.messages
        ]
        recorder.call(
            messages,
            exchange.reply,
            tools=exchange.tools,
            status=exchange.status,
            partial_text=exchange.partial,
            markers=exchange.markers if markers else {},
        )
    return recorder
