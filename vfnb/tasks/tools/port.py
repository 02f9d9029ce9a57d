"""Tools for programs: one streamable-HTTP server on loopback, a path for each rollout and source."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vfnb.tasks.tools.results import ToolResult
from vfnb.tasks.tools.wire import http_manager, load, mcp_server, uvicorn_server
from vfnb.types import Tool

if TYPE_CHECKING:
    from vfnb.tasks.tools.rollout import RolloutTools
    from vfnb.tasks.tools.source import Source

__all__ = ["ToolPort"]

BACKLOG = 1024
POLL_S = 0.005
_ROUTE = "vfnb.route"


class ToolPort:
    """Lives on the loop of hooks. The key in a path is a rollout's capability; `revoke` ends it."""

    def __init__(self) -> None:
        self.root = ""
        self._routes: dict[str, tuple[RolloutTools, dict[str, Source]]] = {}
        self._opening = asyncio.Lock()
        self._server: Any = None
        self._life: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Listen, if nobody does yet."""
        async with self._opening:
            if self._life is None:
                await self._open()

    async def _open(self) -> None:
        await asyncio.to_thread(load)  # seconds of imports would hold up every other hook
        manager = http_manager(mcp_server("vfnb", self._list, self._call))

        async def app(scope: Any, receive: Any, send: Any) -> None:
            status, route = self._find(scope)
            if route is None:
                await refuse(send, status)
            else:
                await manager.handle_request({**scope, _ROUTE: route}, receive, send)

        # With the protocol named: asyncio sets TCP_NODELAY only then, and without it a reply may wait 40 ms.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind(("127.0.0.1", 0))
        listener.listen(BACKLOG)
        self.root = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self._server = uvicorn_server(app)

        async def live() -> None:
            with listener:
                async with manager.run():
                    await self._server.serve(sockets=[listener])

        self._life = asyncio.create_task(live())
        while not self._server.started and not self._life.done():  # noqa: ASYNC110 - uvicorn has no event
            await asyncio.sleep(POLL_S)
        if self._life.done():
            self._life.result()

    def admit(self, key: str, tools: RolloutTools, sources: dict[str, Source]) -> dict[str, str]:
        """Open a rollout's paths; server name to URL."""
        self._routes[key] = (tools, sources)
        return {name: f"{self.root}/{key}/{name}/mcp" for name in sources}

    def revoke(self, key: str) -> None:
        """From now on the key opens nothing."""
        self._routes.pop(key, None)

    def _find(self, scope: Any) -> tuple[int, tuple[RolloutTools, Source] | None]:
        if scope["type"] != "http":
            return 404, None
        parts = scope["path"].strip("/").split("/")
        if len(parts) != 3 or parts[2] != "mcp" or parts[0] not in self._routes:
            return 404, None
        tools, sources = self._routes[parts[0]]
        if parts[1] not in sources:
            return 404, None
        if scope["method"] != "POST":  # no session, so no stream to open and nothing to delete
            return 405, None
        return 200, (tools, sources[parts[1]])

    async def _list(self, context: Any) -> tuple[list[Tool], None]:
        _, source = context.request.scope[_ROUTE]
        return source.tools, None

    async def _call(self, context: Any, name: str, arguments: Mapping[str, Any]) -> tuple[ToolResult, None]:
        tools, source = context.request.scope[_ROUTE]
        return await tools.answer(source, name, arguments), None

    async def close(self) -> None:
        """Stop listening and drop every connection."""
        self._routes.clear()
        life, self._life = self._life, None
        if life is None:
            return
        self._server.should_exit = True
        await asyncio.wait({life}, timeout=3)
        life.cancel()
        await asyncio.wait({life}, timeout=1)


async def refuse(send: Any, status: int) -> None:
    """Answer an ASGI request that leads nowhere."""
    headers = [(b"content-type", b"application/json"), (b"allow", b"POST")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    body = b'{"error":"there is no tool server here; its rollout may be over"}'
    await send({"type": "http.response.body", "body": body})
