"""One keep-alive HTTP/1.1 connection to an upstream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from vfnb.utils.headers import named

__all__ = ["Answer", "Garbled", "Lost", "Silent", "Wire"]

_HIGH = 1 << 20  # unread bytes of a stream at which the upstream is made to wait
_NOTHING, _HEAD, _END = range(3)


class Lost(ConnectionError):
    """The connection broke before the answer was complete."""


class Silent(TimeoutError):
    """Nothing came for too long."""


class Garbled(ValueError):
    """What came is not HTTP."""


class Answer(Protocol):
    """One answer as it comes in. It must be released in the end."""

    status: int
    headers: dict[str, str]
    """Names in lower case; of a repeated one the first counts."""

    async def head(self) -> None:
        """Wait for status and headers. Raises as `read`."""
        ...

    async def read(self) -> bytes:
        """Status, headers and the whole body, or what is left of it.

        Raises:
            Lost, Silent, Garbled: it did not come.
        """
        ...

    async def readany(self) -> bytes:
        """What has come, at least one byte; `b""` at the end. Raises as `read`."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the answer is complete and read."""
        ...

    def release(self) -> None:
        """Give the connection back if the answer is complete, else close it."""
        ...

    def fail(self, error: Exception) -> None:
        """Close the connection; whoever reads gets this error."""
        ...


class Wire(asyncio.Protocol):
    """Sends a request, then is its `Answer`; `free` is told when it can be used again.

    Args:
        free: called with this wire when its answer is complete and it may carry another request.
        gone: called with this wire when its connection is closed.
    """

    transport: asyncio.Transport
    on_header: Callable[[bytes, bytes], object]
    on_body: Callable[[bytes], None]

    def __init__(self, free: Callable[[Wire], None], gone: Callable[[Wire], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._free = free
        self._gone = gone
        self._pieces: list[bytes] = []
        self._got: dict[bytes, bytes] = {}
        self.on_header = self._got.setdefault  # no Python call for each: of a repeated one the first counts
        self.on_body = self._pieces.append
        self._parser = HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._goal = _NOTHING
        self._state = _END
        self._error: Exception | None = None
        self._unread = 0
        self._streaming = False
        self._reusable = False
        self._framed = False
        self.status = 0
        self.headers: dict[str, str] = {}
        self.heard = 0.0
        """When the last byte came, or the request was sent; in loop time."""
        self.busy = False
        """It carries a request whose answer has not been released."""

    # use

    def send(self, head: bytes, body: bytes) -> None:
        """Start a request."""
        self._state = _NOTHING
        self._error = None
        self._streaming = self._reusable = self._framed = False
        if self._unread > _HIGH:  # an answer that was not read to its end
            self.transport.resume_reading()
        self._unread = 0
        self.status = 0
        self.headers = {}
        self.heard = self._loop.time()
        self.busy = True
        if len(body) < 1 << 16:
            self.transport.write(head + body)
        else:
            self.transport.write(head)
            self.transport.write(memoryview(body))  # of bytes, asyncio copies what is not sent at once

    async def head(self) -> None:
        """Wait for status and headers."""
        self._streaming = True
        if self._state < _HEAD:
            await self._until(_HEAD)

    async def read(self) -> bytes:
        self._streaming = False
        if self._state != _END:
            self.transport.resume_reading()
            await self._until(_END)
        elif self._error is not None:
            raise self._error
        return self._take()

    async def readany(self) -> bytes:
        while not self._pieces and self._state != _END:
            await self._until(_HEAD)
        if not self._pieces and self._error is not None:
            raise self._error
        return self._take()

    @property
    def ended(self) -> bool:
        return self._state == _END and self._error is None and not self._pieces

    def release(self) -> None:
        if not self.busy:
            return
        self.busy = False
        self._pieces.clear()
        if self._state == _END and self._reusable and not self.transport.is_closing():
            self._free(self)
        else:
            self.transport.abort()

    def close(self) -> None:
        """Close the connection; nobody reads."""
        self.busy = False
        self.transport.abort()

    def fail(self, error: Exception) -> None:
        if self._state != _END:
            self._state = _END
            self._error = error
            self._reusable = False
            self._wake()
        self.transport.abort()

    async def _until(self, goal: int) -> None:
        """Wait for bytes, the head (`_HEAD`) or the end."""
        self._goal = goal
        waiter = self._waiter = self._loop.create_future()
        await waiter
        if self._state == _END and self._error is not None and not (goal == _HEAD and self._pieces):
            raise self._error

    def _take(self) -> bytes:
        pieces = self._pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if self._unread > _HIGH:
            self.transport.resume_reading()
        self._unread = 0
        return data

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if not self.busy:  # nothing was asked
            self.transport.abort()
            return
        self.heard = self._loop.time()
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self.fail(Garbled("it changes to another protocol"))
        except HttpParserError as error:
            if self._state != _END:
                self.fail(Garbled(str(error)))
            self._reusable = False
        if self._state != _NOTHING:
            self._got.clear()  # trailers
        if self._streaming:
            self._unread += len(data)
            if self._unread > _HIGH:
                self.transport.pause_reading()
        if self._waiter is not None and self._state >= self._goal:
            self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        if self._state == _HEAD and not self._framed and error is None:
            self._state = _END  # the end of the connection is the end of the body
        elif self._state != _END:
            self._state = _END
            self._error = Lost(str(error) if error is not None else "the server closed the connection")
        self._reusable = False
        self._wake()
        self._gone(self)

    # parser

    def on_headers_complete(self) -> None:
        self.headers = named(self._got)
        self.status = self._parser.get_status_code()
        if self.status >= 200:
            self._state = _HEAD
            self._framed = "content-length" in self.headers or "transfer-encoding" in self.headers

    def on_message_complete(self) -> None:
        self._got.clear()
        if self.status < 200:  # 100 Continue and the like
            self.headers = {}
            return
        self._state = _END
        self._reusable = self._parser.should_keep_alive()
