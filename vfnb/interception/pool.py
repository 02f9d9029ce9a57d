"""Servers for many sessions: one per 32, more when needed, fewer when idle."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from vfnb.interception.server import Server

if TYPE_CHECKING:
    from vfnb.interception.session import Session

__all__ = ["Endpoint", "ServerPool"]


class Endpoint(NamedTuple):
    """Where a program finds its session."""

    base_url: str
    """Root of the routes. Anthropic clients want it so, OpenAI clients with `/v1` behind it."""
    port: int


class ServerPool:
    """All methods run on the engine loop.

    Args:
        per_server: sessions per server.
        idle: seconds after which a server without sessions is closed.
        host: address to listen on.
        body_limit: largest request body, in bytes.
    """

    def __init__(
        self,
        *,
        per_server: int = 32,
        idle: float = 5.0,
        host: str = "127.0.0.1",
        body_limit: int = 256 << 20,
    ) -> None:
        self._per_server = per_server
        self._idle = idle
        self._host = host
        self._body_limit = body_limit
        self._sessions: dict[str, Session] = {}
        self._homes: dict[str, Server] = {}
        self._loads: dict[Server, int] = {}
        self._timers: dict[Server, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._lock = asyncio.Lock()

    @property
    def ports(self) -> list[int]:
        """The open ports."""
        return [server.port for server in self._loads]

    def __len__(self) -> int:
        """Number of registered sessions."""
        return len(self._sessions)

    async def register(self, session: Session) -> Endpoint:
        """Make a session reachable by its key; starts a server if the others are full."""
        async with self._lock:
            server = self._roomiest()
            if server is None:
                server = Server(self._sessions, host=self._host, body_limit=self._body_limit)
                await server.start()
                self._loads[server] = 0
            self._loads[server] += 1
            timer = self._timers.pop(server, None)
            if timer is not None:
                timer.cancel()
            self._sessions[session.key] = session
            self._homes[session.key] = server
        return Endpoint(server.url, server.port)

    def _roomiest(self) -> Server | None:
        """The fullest server with room, so that the others can run empty."""
        room = [server for server, load in self._loads.items() if load < self._per_server]
        return max(room, key=lambda server: self._loads[server], default=None)

    async def release(self, session: Session) -> None:
        """Refuse the session's key from now on. Unknown sessions are ignored."""
        server = self._homes.pop(session.key, None)
        if server is None:
            return
        del self._sessions[session.key]
        self._loads[server] -= 1
        if self._loads[server] == 0:
            loop = asyncio.get_running_loop()
            self._timers[server] = loop.call_later(self._idle, self._retire, server)

    def _retire(self, server: Server) -> None:
        self._timers.pop(server, None)
        if self._loads.get(server) != 0:
            return
        del self._loads[server]
        task = asyncio.get_running_loop().create_task(server.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all ports; sessions are not closed. The pool can be used again."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        servers = list(self._loads)
        self._loads.clear()
        self._homes.clear()
        self._sessions.clear()
        await asyncio.gather(*(server.close() for server in servers), *self._closing)
