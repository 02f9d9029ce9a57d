"""An httpx transport that reaches a session without a socket, from any loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import httpx

from vfnb import loops
from vfnb.interception.http import SSE_HEADERS
from vfnb.interception.router import route

if TYPE_CHECKING:
    from vfnb.interception.session import Session

__all__ = ["InProcessTransport"]

_Head = tuple[int, dict[str, str]]


class InProcessTransport(httpx.AsyncBaseTransport):
    """Give it to `httpx.AsyncClient`; scheme and host of the URL do not matter, the path does.

    Calls are recorded as those that come through the server. Cancelling a request, or closing a stream
    early, cancels the model call and records it as cancelled.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request.

        Raises:
            httpx.ReadError: the session was closed before the first byte.
            httpx.RemoteProtocolError: a stream was cut (while it is read).
        """
        body = await request.aread()
        channel = _Channel()

        work = route(
            self._session,
            request.method,
            request.url.raw_path.decode("latin-1"),
            request.headers,
            lambda: body,
            channel,
            transport="inprocess",
        )
        running = _start(work, channel)
        try:
            status, headers = await channel.head()
        except asyncio.CancelledError:
            running.cancel()
            raise
        return httpx.Response(status, headers=headers, stream=_Stream(channel, running), request=request)


def _start(work: Coroutine[Any, Any, None], channel: _Channel) -> asyncio.Task[None] | Future[None]:
    engine = loops.engine()
    running: asyncio.Task[None] | Future[None]
    running = asyncio.get_running_loop().create_task(work) if engine.inside else engine.submit(work)
    running.add_done_callback(channel.over)
    return running


class _Channel:
    """A sink whose reader is on the loop that made it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[_Head | bytes | Exception | None] = asyncio.Queue()
        self._open = True
        self._handed = False
        self.opened = False

    def alive(self) -> bool:
        """Whether the reader still reads, or did when the whole answer was handed to it."""
        return self._open or self._handed

    def _put(self, *items: _Head | bytes | Exception | None) -> None:
        if self._open and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take, items)

    def _take(self, items: tuple[_Head | bytes | Exception | None, ...]) -> None:
        for item in items:
            self._items.put_nowait(item)

    async def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """A whole answer."""
        self._handed = self._open
        self._put((status, headers), body, None)

    async def write(self, data: bytes) -> None:
        """A piece of a stream."""
        if not self.opened:
            self.opened = True
            self._put((200, SSE_HEADERS), data)
        else:
            self._put(data)

    async def end(self, data: bytes = b"") -> None:
        """The last bytes; the stream is complete."""
        if data:
            await self.write(data)
        self._handed = self._open
        self._put(None)

    def abort(self) -> None:
        """The stream is cut."""
        message = "peer closed connection without sending complete message body (incomplete chunked read)"
        self._put(httpx.RemoteProtocolError(message))

    def over(self, running: asyncio.Task[None] | Future[None]) -> None:
        """The call has ended; if it was cancelled or failed, the reader must not wait on."""
        error = None if running.cancelled() else running.exception()
        if running.cancelled() or error is not None:
            self._put(httpx.ReadError(f"the session ended the call: {error or 'closed'}"))

    def leave(self) -> None:
        """The reader goes away."""
        self._open = False

    async def head(self) -> _Head:
        """Status and headers."""
        item = await self._items.get()
        if isinstance(item, Exception):
            raise item
        assert isinstance(item, tuple)
        return item

    async def next(self) -> bytes | None:
        """The next bytes, None at the end."""
        item = await self._items.get()
        if isinstance(item, Exception):
            raise item
        assert not isinstance(item, tuple)
        return item


class _Stream(httpx.AsyncByteStream):
    def __init__(self, channel: _Channel, running: asyncio.Task[None] | Future[None]) -> None:
        self._channel = channel
        self._running = running
        self._ended = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (data := await self._channel.next()) is not None:
            yield data
        self._ended = True

    async def aclose(self) -> None:
        self._channel.leave()
        if not self._ended:
            self._running.cancel()
