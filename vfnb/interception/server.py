"""One HTTP server on the loopback; it knows sessions only through the keys of its pool."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from vfnb.interception.connection import Connection

if TYPE_CHECKING:
    from vfnb.interception.session import Session

__all__ = ["Server"]


class Server:
    """Listens on one port until `close`.

    Args:
        sessions: key -> session; looked up at each request, so a released key is refused at once.
        host: address to listen on.
        body_limit: largest request body after decompression, in bytes.
        idle: seconds for which a connection may wait for its next request.
        slow: seconds for the head of a request, and longest pause inside a body.
    """

    def __init__(
        self,
        sessions: Mapping[str, Session],
        *,
        host: str = "127.0.0.1",
        body_limit: int = 256 << 20,
        idle: float = 600.0,
        slow: float = 60.0,
    ) -> None:
        self._sessions = sessions
        self._host = host
        self._body_limit = body_limit
        self._idle = idle
        self._slow = slow
        self._connections: set[Connection] = set()
        self._listener: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """Root of all routes, without `/v1`."""
        return f"http://{self._host}:{self.port}"

    async def start(self) -> None:
        """Open the port."""
        loop = asyncio.get_running_loop()
        listening = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit it; without it a small answer can wait 40 ms for an acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.bind((self._host, 0))
        self._listener = await loop.create_server(self._connect, sock=listening, backlog=1024)
        self.port = listening.getsockname()[1]
        self._sweep()

    def _connect(self) -> Connection:
        return Connection(self._sessions, self._connections, self._body_limit)

    def _sweep(self) -> None:
        """Close connections that say nothing for too long."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in list(self._connections):
            if connection.stale(now, self._idle, self._slow):
                connection.close()
        self._timer = loop.call_later(min(5.0, self._idle / 4, self._slow / 4), self._sweep)

    async def close(self, grace: float = 1.0) -> None:
        """Close the port and all connections; requests under way get `grace` seconds."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        listener.close()
        if self._timer is not None:
            self._timer.cancel()
        tasks = {one.task for one in self._connections if one.task is not None}
        self._close_idle()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace)
            self._close_idle()
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        for connection in list(self._connections):
            if not connection.transport.is_closing():
                connection.transport.abort()

    def _close_idle(self) -> None:
        for connection in list(self._connections):
            if connection.task is None:
                connection.close()
