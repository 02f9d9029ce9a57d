"""An aiohttp server on loopback, on a thread and loop of its own."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from aiohttp import web

__all__ = ["ThreadServer"]


class ThreadServer:
    """Subclasses answer requests in `handle`. Use as a context manager."""

    def __init__(self) -> None:
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._main, daemon=True)

    @property
    def url(self) -> str:
        """The server's root, without `/v1`."""
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raise NotImplementedError

    async def opened(self) -> None:
        """Called on the server's loop before it serves."""

    async def closed(self) -> None:
        """Called on the server's loop after it has served."""

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        await self.opened()
        app = web.Application(client_max_size=256 << 20)
        app.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()
        await self.closed()

    def __enter__(self) -> Any:
        self._thread.start()
        assert self._ready.wait(10), "the test server did not start"
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
