"""A scripted server that speaks Gemini `generateContent` as Google does: replies, event streams, lists, errors."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.server import ThreadServer
from support.upstream import Received

__all__ = ["GeminiUpstream", "Parts", "failing"]

STATUS = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}


@dataclass
class Parts:
    """One reply of content parts, or an error."""

    parts: list[dict[str, Any]] = field(default_factory=lambda: [{"text": "hello"}])
    finish: str = "STOP"
    usage: dict[str, Any] | None = field(
        default_factory=lambda: {"promptTokenCount": 7, "candidatesTokenCount": 3, "totalTokenCount": 10}
    )
    status: int = 200
    raw: bytes = b""
    pace: float = 0.0
    """Seconds between events."""
    cut_after: int | None = None
    """Break the connection after this many events."""


def failing(status: int, text: str) -> Parts:
    """An error of Google's."""
    error = {"code": status, "message": text, "status": STATUS.get(status, "INTERNAL")}
    return Parts(status=status, raw=json.dumps({"error": error}).encode())


def whole(say: Parts, parts: list[dict[str, Any]], model: str, *, last: bool) -> dict[str, Any]:
    """A `GenerateContentResponse`."""
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if last:
        candidate["finishReason"] = say.finish
    body: dict[str, Any] = {"candidates": [candidate], "modelVersion": model, "responseId": "g-1"}
    return body | ({"usageMetadata": say.usage} if last and say.usage is not None else {})


def events(say: Parts, model: str) -> list[dict[str, Any]]:
    """The replies of a stream: texts in pieces of 4 characters, the last piece with the end."""
    pieces: list[dict[str, Any]] = []
    for part in say.parts:
        text = part.get("text")
        if not isinstance(text, str) or len(text) <= 4:
            pieces.append(part)
            continue
        plain = {key: value for key, value in part.items() if key != "thoughtSignature"}
        cuts = [text[start : start + 4] for start in range(0, len(text), 4)]
        pieces += [plain | {"text": cut} for cut in cuts[:-1]] + [part | {"text": cuts[-1]}]
    return [whole(say, [piece], model, last=piece is pieces[-1]) for piece in pieces]


class GeminiUpstream(ThreadServer):
    """Answers `:generateContent` and `:streamGenerateContent` from a script.

    Args:
        script: `fn(body, number)` that returns `Parts` or text, or a list of these; the last one repeats.
    """

    def __init__(self, script: Callable[[Any, int], Parts | str] | list[Parts | str] | None = None) -> None:
        super().__init__()
        self.calls: list[Received] = []
        self._script = script or [Parts()]

    def _say(self, body: Any, number: int) -> Parts:
        if callable(self._script):
            say = self._script(body, number)
        else:
            say = self._script[min(number, len(self._script) - 1)]
        return Parts([{"text": say}]) if isinstance(say, str) else say

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        got = Received(request.method, request.path_qs, dict(request.headers), raw, time.monotonic())
        self.calls.append(got)
        try:
            return await self._answer(request, got)
        finally:
            got.end = time.monotonic()

    async def _answer(self, request: web.Request, got: Received) -> web.StreamResponse:
        say = self._say(got.body, len(self.calls) - 1)
        model, _, what = request.path.rpartition("/")[2].partition(":")
        if say.status != 200:
            return web.Response(status=say.status, body=say.raw, content_type="application/json")
        if what == "generateContent":
            return web.json_response(whole(say, say.parts, model, last=True))
        if request.query.get("alt") != "sse":
            return web.json_response(events(say, model))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for index, event in enumerate(events(say, model)):
            if index == say.cut_after:
                assert request.transport is not None
                request.transport.abort()
                return response
            if say.pace and index:
                await asyncio.sleep(say.pace)
            await response.write(b"data: " + json.dumps(event).encode() + b"\r\n\r\n")
        await response.write_eof()
        return response
