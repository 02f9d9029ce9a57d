"""An HTTP proxy that spoils answers on the way: what a bad network or a bad provider does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import aiohttp
from aiohttp import web

from support.server import ThreadServer

__all__ = ["FAULTS", "FaultProxy"]

FAULTS = (
    "reset",  # connection reset in the middle of the answer
    "truncate",  # half of the answer, but a clean end
    "rate_limit",  # 429 with Retry-After
    "server_error",  # 500
    "slow",  # the answer in small pieces
    "duplicate",  # one event twice
    "no_end",  # a stream without its last events
    "refuse",  # connection closed without an answer
)


class FaultProxy(ThreadServer):
    """Passes requests to `target` and spoils those that the plan names.

    Args:
        target: root URL of the real server.
        plan: `fn(number)` that returns a fault or None; or a list, used in turn and then over.
        retry_after: seconds told with a 429.
    """

    def __init__(
        self, target: str, plan: Callable[[int], str | None] | list[str | None], *, retry_after: float = 0.05
    ) -> None:
        super().__init__()
        self._target = target
        self._plan = plan
        self._retry_after = retry_after
        self._session: aiohttp.ClientSession | None = None
        self.seen: list[str | None] = []
        """The fault of each request so far."""

    async def opened(self) -> None:
        self._session = aiohttp.ClientSession()

    async def closed(self) -> None:
        assert self._session is not None
        await self._session.close()

    def _fault(self, number: int) -> str | None:
        if callable(self._plan):
            return self._plan(number)
        return self._plan[number] if number < len(self._plan) else None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        fault = self._fault(len(self.seen))
        self.seen.append(fault)
        assert request.transport is not None
        if fault == "rate_limit":
            headers = {"Retry-After": str(self._retry_after)}
            return web.json_response({"error": {"message": "slow down"}}, status=429, headers=headers)
        if fault == "server_error":
            return web.json_response({"error": {"message": "oops"}}, status=500)
        if fault == "refuse":
            request.transport.abort()
            return web.Response()
        assert self._session is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in ("host",)}
        async with self._session.request(
            request.method, self._target + request.path_qs, data=await request.read(), headers=headers
        ) as answer:
            body = await answer.read()
            kind = answer.headers.get("Content-Type", "")
            status = answer.status
        stream = kind.startswith("text/event-stream")
        response = web.StreamResponse(status=status, headers={"Content-Type": kind})
        await response.prepare(request)
        for piece in _pieces(body, fault, stream):
            await response.write(piece)
            if fault == "slow":
                await asyncio.sleep(0.002)
        if fault == "reset":
            await asyncio.sleep(0.02)
            request.transport.abort()
        else:
            await response.write_eof()
        return response


def _pieces(body: bytes, fault: str | None, stream: bool) -> list[bytes]:
    if fault in ("reset", "truncate"):
        return [body[: len(body) // 2]]
    if fault == "slow":
        return [body[start : start + 7] for start in range(0, len(body), 7)]
    events = [event + b"\n\n" for event in body.split(b"\n\n") if event] if stream else [body]
    if fault == "duplicate" and stream:
        middle = len(events) // 2
        return [*events[: middle + 1], *events[middle:]]
    if fault == "no_end" and stream:
        return [event for event in events if b"[DONE]" not in event and not _finishes(event)]
    return events


def _finishes(event: bytes) -> bool:
    try:
        data = json.loads(event.partition(b"data:")[2])
    except ValueError:
        return False
    return not data.get("choices") or any(choice.get("finish_reason") for choice in data["choices"])
