"""The least that a relay must do: plain proxies that record nothing.

    python -m benchmarks.net.floors bare|aiohttp UPSTREAM

`bare` moves bytes between two sockets and knows only where a request ends; `aiohttp` is the usual server and
client in Python. Each prints one JSON line with its URL.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from benchmarks.forms import FORMS


def ready(port: int) -> None:
    print(json.dumps({"url": f"http://127.0.0.1:{port}{FORMS['chat'].path}", "keys": ["none"]}), flush=True)


class Above(asyncio.Protocol):
    """The connection to the upstream: hands its bytes to the client."""

    transport: asyncio.Transport

    def __init__(self, below: asyncio.Transport) -> None:
        self.below = below

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.below.write(data)


class Below(asyncio.Protocol):
    """A client's connection: hands its bytes to an upstream connection of its own."""

    host: str
    port: int

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.above: Above | None = None
        self.waiting: list[bytes] = []

        async def connect() -> None:
            loop = asyncio.get_running_loop()
            _, self.above = await loop.create_connection(lambda: Above(transport), self.host, self.port)
            self.above.transport.write(b"".join(self.waiting))

        self.task = asyncio.ensure_future(connect())

    def data_received(self, data: bytes) -> None:
        if self.above is None:
            self.waiting.append(data)
        else:
            self.above.transport.write(data)


async def bare(upstream: str) -> None:
    url = urlsplit(upstream)
    assert url.hostname and url.port
    Below.host, Below.port = url.hostname, url.port
    server = await asyncio.get_running_loop().create_server(Below, "127.0.0.1", 0, backlog=4096)
    ready(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def pass_through(upstream: str) -> None:
    client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
    root = upstream.removesuffix("/v1")

    async def relay(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        async with client.post(
            root + request.path, data=body, headers={"Content-Type": "application/json"}
        ) as reply:
            if reply.content_type != "text/event-stream":
                return web.Response(body=await reply.read(), content_type="application/json")
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            async for chunk in reply.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/{path:.*}", relay)
    runner = web.AppRunner(app)
    await runner.setup()
    site: Any = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    ready(site._server.sockets[0].getsockname()[1])
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run({"bare": bare, "aiohttp": pass_through}[sys.argv[1]](sys.argv[2]))
