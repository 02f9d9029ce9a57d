"""A scripted OpenAI-compatible server: plain and streamed replies, usage, errors; it records what it got."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.server import ThreadServer

__all__ = ["Received", "Say", "Upstream", "chunk_events", "completion"]


@dataclass
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    start: float
    end: float = 0.0
    cancelled: bool = False

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


@dataclass
class Say:
    """One reply. `text`, `reasoning`, `calls` and `usage` make a chat completion; `raw` or `events` replace it."""

    text: str | None = "hello"
    reasoning: str | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)
    finish: str | None = None
    usage: dict[str, Any] | None = field(
        default_factory=lambda: {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    )
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    events: list[bytes] | None = None
    delay: float = 0.0
    """Seconds before the reply."""
    pace: float = 0.0
    """Seconds between events."""
    cut_after: int | None = None
    """Abort the connection after this many events."""


def completion(say: Say, model: str) -> dict[str, Any]:
    """The chat completion that `say` describes."""
    message: dict[str, Any] = {"role": "assistant", "content": say.text}
    if say.reasoning is not None:
        message["reasoning_content"] = say.reasoning
    if say.calls:
        message["tool_calls"] = say.calls
    reason = say.finish or ("tool_calls" if say.calls else "stop")
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
    }
    return body | ({"usage": say.usage} if say.usage is not None else {})


def chunk_events(say: Say, model: str, include_usage: bool) -> list[bytes]:
    """The event sequence that `say` describes."""
    shell = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}

    def event(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return b"data: " + json.dumps({**shell, "choices": [choice]}).encode() + b"\n\n"

    events = [event({"role": "assistant", "content": ""})]
    if say.reasoning:
        events.append(event({"reasoning_content": say.reasoning}))
    text = say.text or ""
    events += [event({"content": text[start : start + 4]}) for start in range(0, len(text), 4)]
    for index, call in enumerate(say.calls):
        events.append(event({"tool_calls": [{"index": index, **call}]}))
    events.append(event({}, say.finish or ("tool_calls" if say.calls else "stop")))
    if include_usage and say.usage is not None:
        events.append(b"data: " + json.dumps({**shell, "choices": [], "usage": say.usage}).encode() + b"\n\n")
    return [*events, b"data: [DONE]\n\n"]


class Upstream(ThreadServer):
    """Answers `/v1/chat/completions` (or any POST) from a script, `/v1/models` with one model.

    Args:
        script: `fn(body, number)` that returns a `Say` or text, or a list of these; the last one repeats.
    """

    def __init__(self, script: Callable[[Any, int], Say | str] | list[Say | str] | None = None) -> None:
        super().__init__()
        self.requests: list[Received] = []
        self.active = 0
        self.most = 0
        """The most calls at once."""
        self._script = script or [Say()]

    @property
    def calls(self) -> list[Received]:
        """The POST requests."""
        return [request for request in self.requests if request.method == "POST"]

    def _say(self, body: Any, number: int) -> Say:
        if callable(self._script):
            say = self._script(body, number)
        else:
            say = self._script[min(number, len(self._script) - 1)]
        return Say(text=say) if isinstance(say, str) else say

    def whole(self, say: Say, model: str) -> dict[str, Any]:
        """A plain reply."""
        return completion(say, model)

    def streamed(self, say: Say, model: str, body: Any) -> list[bytes]:
        """A streamed one."""
        options = body.get("stream_options") or {}
        return chunk_events(say, model, bool(options.get("include_usage")))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        received = Received(request.method, request.path_qs, dict(request.headers), raw, time.monotonic())
        self.requests.append(received)
        if request.method == "GET":
            if request.path.endswith("/models"):
                return web.json_response({"object": "list", "data": [{"id": "mock", "object": "model"}]})
            return web.json_response({"error": {"message": "not found"}}, status=404)
        self.active += 1
        self.most = max(self.most, self.active)
        try:
            return await self._answer(request, received, len(self.calls) - 1)
        except (asyncio.CancelledError, ConnectionError):
            received.cancelled = True
            raise
        finally:
            received.end = time.monotonic()
            self.active -= 1

    async def _answer(self, request: web.Request, received: Received, number: int) -> web.StreamResponse:
        try:
            body = received.body
        except ValueError:
            return web.json_response({"error": {"message": "not JSON"}}, status=400)
        say = self._say(body, number)
        if say.delay:
            await asyncio.sleep(say.delay)
        model = body.get("model", "")
        if say.raw is not None or say.status != 200 or not body.get("stream"):
            raw = say.raw if say.raw is not None else json.dumps(self.whole(say, model)).encode()
            headers = {"Content-Type": "application/json", **say.headers}
            return web.Response(status=say.status, body=raw, headers=headers)
        events = say.events if say.events is not None else self.streamed(say, model, body)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **say.headers})
        await response.prepare(request)
        for index, event in enumerate(events):
            if index == say.cut_after:
                assert request.transport is not None
                request.transport.abort()
                return response
            if say.pace and index:
                await asyncio.sleep(say.pace)
            await response.write(event)
        if say.cut_after is None:
            await response.write_eof()
        return response
