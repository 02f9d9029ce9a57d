"""A scripted server that speaks Anthropic Messages: replies, streams, errors, counts, models."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.upstream import Received, Say, Upstream

__all__ = ["Blocks", "MessagesUpstream", "event", "failing", "message", "message_events"]

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


@dataclass
class Blocks(Say):
    """One reply of content blocks; a plain text if there are none."""

    blocks: list[dict[str, Any]] = field(default_factory=list)
    reason: str | None = None
    sequence: str | None = None
    usage: dict[str, Any] | None = field(
        default_factory=lambda: {
            "input_tokens": 7,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 5,
            "output_tokens": 3,
        }
    )


def failing(status: int, text: str, **headers: str) -> Blocks:
    """An error of the provider's."""
    error = {"type": KINDS.get(status, "api_error"), "message": text}
    body = {"type": "error", "error": error, "request_id": "req_011"}
    return Blocks(status=status, raw=json.dumps(body).encode(), headers=headers)


def message(say: Say, model: str) -> dict[str, Any]:
    """The `message` that `say` describes."""
    blocks = say.blocks if isinstance(say, Blocks) else []
    content = blocks or [{"type": "text", "text": say.text or ""}]
    calls = any(block["type"] == "tool_use" for block in content)
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": getattr(say, "reason", None) or ("tool_use" if calls else "end_turn"),
        "stop_sequence": getattr(say, "sequence", None),
        "usage": say.usage,
    }


def event(kind: str, **keys: Any) -> bytes:
    """One event of a stream."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **keys})}\n\n".encode()


def message_events(say: Say, model: str) -> list[bytes]:
    """The event sequence that `say` describes, in pieces of 4 characters."""
    whole = message(say, model)
    usage = whole["usage"] or {}
    start = whole | {"content": [], "stop_reason": None, "stop_sequence": None}
    events = [event("message_start", message=start | {"usage": usage | {"output_tokens": 1}}), event("ping")]
    for index, block in enumerate(whole["content"]):
        empty, deltas = _deltas(block)
        events.append(event("content_block_start", index=index, content_block=empty))
        events += [event("content_block_delta", index=index, delta=delta) for delta in deltas]
        events.append(event("content_block_stop", index=index))
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": whole["stop_sequence"]}
    events.append(event("message_delta", delta=delta, usage={"output_tokens": usage.get("output_tokens", 0)}))
    return [*events, event("message_stop")]


def _deltas(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    kind = block["type"]
    if kind == "text":
        cited = [{"type": "citations_delta", "citation": one} for one in block.get("citations") or []]
        return block | {"text": ""} | ({"citations": []} if cited else {}), cited + _cut(
            "text", block["text"]
        )
    if kind == "thinking":
        signature = {"type": "signature_delta", "signature": block["signature"]}
        return block | {"thinking": "", "signature": ""}, [*_cut("thinking", block["thinking"]), signature]
    if kind in ("tool_use", "server_tool_use"):
        text = json.dumps(block["input"])
        pieces = ["", *(text[start : start + 4] for start in range(0, len(text), 4))]
        return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": one} for one in pieces]
    return block, []


def _cut(kind: str, text: str) -> list[dict[str, Any]]:
    return [{"type": f"{kind}_delta", kind: text[start : start + 4]} for start in range(0, len(text), 4)]


class MessagesUpstream(Upstream):
    """Answers `/v1/messages` from a script, counts 42 tokens in any prompt, and has one model."""

    def whole(self, say: Say, model: str) -> dict[str, Any]:
        return message(say, model)

    def streamed(self, say: Say, model: str, body: Any) -> list[bytes]:
        return message_events(say, model)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/count_tokens"):
            raw = await request.read()
            got = Received(request.method, request.path_qs, dict(request.headers), raw, time.monotonic())
            self.counted.append(got)
            return web.json_response({"input_tokens": 42})
        if request.method == "GET" and "/models" in request.path:
            return web.json_response(self._models(request.path.partition("/models/")[2]))
        return await super().handle(request)

    def _models(self, name: str) -> dict[str, Any]:
        entry = {
            "type": "model",
            "id": name or "mock",
            "display_name": name or "mock",
            "created_at": "1970-01-01T00:00:00Z",
            "lifecycle": "active",
        }
        if name:
            return entry
        return {"data": [entry], "has_more": False, "first_id": "mock", "last_id": "mock"}

    def __init__(self, script: Any = None) -> None:
        super().__init__(script)
        self.counted: list[Received] = []
        """The requests for a count."""
