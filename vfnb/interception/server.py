"""One HTTP server on the loopback; it knows sessions only through the keys of its pool."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from aiohttp import web

from vfnb.interception.http import HttpSink, Sent, credential, read_body
from vfnb.interception.router import route

if TYPE_CHECKING:
    from aiohttp.web_request import BaseRequest

    from vfnb.interception.session import Session

__all__ = ["Server"]

_READ_BUFFER = 1 << 20


class Server:
    """Listens on one port until `close`.

    Args:
        sessions: key -> session; looked up at each request, so a released key is refused at once.
        host: address to listen on.
        body_limit: largest request body after decompression, in bytes.
    """

    def __init__(
        self, sessions: Mapping[str, Session], *, host: str = "127.0.0.1", body_limit: int = 256 << 20
    ) -> None:
        self._sessions = sessions
        self._host = host
        self._body_limit = body_limit
        self._web: web.Server | None = None
        self._listener: asyncio.Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """Root of all routes, without `/v1`."""
        return f"http://{self._host}:{self.port}"

    async def start(self) -> None:
        """Open the port."""
        loop = asyncio.get_running_loop()
        self._web = web.Server(
            self._serve,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=600.0,
            read_bufsize=_READ_BUFFER,
            lingering_time=0.5,
        )
        listening = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit it; without it a small answer can wait 40 ms for an acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.bind((self._host, 0))
        self._listener = await loop.create_server(self._web, sock=listening, backlog=1024)
        self.port = listening.getsockname()[1]

    async def close(self, grace: float = 1.0) -> None:
        """Close the port and all connections; handlers get `grace` seconds."""
        if self._listener is None or self._web is None:
            return
        self._listener.close()
        self._web.pre_shutdown()
        await self._web.shutdown(grace)
        self._listener = self._web = None

    async def _serve(self, request: BaseRequest) -> web.StreamResponse:
        sink = HttpSink(request)
        headers = request.headers
        session = self._sessions.get(credential(headers))
        await route(
            session,
            request.method,
            request.raw_path,
            headers,
            lambda: read_body(request, self._body_limit),
            sink,
        )
        if not sink.started:  # nobody answered: better a broken connection than one that hangs
            sink.abort()
        return Sent(sink)
