"""The sink that writes an answer to the connection on which its request came."""

from __future__ import annotations

import functools
from http import HTTPStatus
from typing import TYPE_CHECKING

from vfnb.interception.http import SSE_HEADERS

if TYPE_CHECKING:
    from vfnb.interception.connection import Connection
    from vfnb.interception.http import Incoming

__all__ = ["HttpSink"]


class HttpSink:
    """Writes head and chunk framing in one piece with the data."""

    __slots__ = (
        "_chunked",
        "_closing",
        "_connection",
        "_dead",
        "_head_only",
        "finished",
        "opened",
        "started",
    )

    def __init__(self, connection: Connection, request: Incoming) -> None:
        self._connection = connection
        self._dead = False
        self._chunked = request.modern
        self._closing = not (request.modern and request.keep_alive)
        self._head_only = request.method == "HEAD"
        self.opened = False
        """Whether a stream has begun."""
        self.started = False
        """Whether any answer has begun."""
        self.finished = False

    def alive(self) -> bool:
        """Whether the connection is open, or was when the whole answer was handed to it."""
        if self._dead or self.finished:
            return not self._dead
        return self._connection.open

    async def _send(self, data: bytes) -> None:
        connection = self._connection
        if self._dead or not connection.open:
            self._dead = True
            return
        connection.transport.write(data)
        if connection.full:
            await connection.drained()
            self._dead = self._dead or not connection.open

    async def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Send a whole answer."""
        self.started = self.finished = True
        head = b"%bContent-Length: %d\r\n\r\n" % (self._head(status, headers), len(body))
        await self._send(head if self._head_only else head + body)

    async def write(self, data: bytes) -> None:
        """Send bytes of a stream at once."""
        await self._send(self._begin() + self._chunk(data))

    async def end(self, data: bytes = b"") -> None:
        """Send the last bytes and close the stream."""
        self.finished = True
        last = self._chunk(data) if data else b""
        await self._send(self._begin() + last + (b"0\r\n\r\n" if self._chunked else b""))

    def abort(self) -> None:
        """Break the connection."""
        self._dead = self.started = True
        self._connection.transport.close()

    @property
    def keep_alive(self) -> bool:
        """Whether the connection may carry another request."""
        return self.finished and not self._dead and not self._closing

    def _begin(self) -> bytes:
        if self.opened:
            return b""
        self.opened = self.started = True
        end = b"Transfer-Encoding: chunked\r\n\r\n" if self._chunked else b"\r\n"
        return self._head(200, SSE_HEADERS) + end

    def _chunk(self, data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data

    def _head(self, status: int, headers: dict[str, str]) -> bytes:
        return _head(status, tuple(headers.items()), self._closing)


@functools.lru_cache(256)
def _head(status: int, headers: tuple[tuple[str, str], ...], closing: bool) -> bytes:
    """Status line and headers, without the length and the blank line."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers)]
    if closing:
        lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n").encode("latin-1")
