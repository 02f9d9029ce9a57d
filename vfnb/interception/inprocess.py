"""An httpx transport that reaches a session without a socket, from any loop.

Clients of providers come with httpx or with a successor of it, whose classes have the same names: `transport` makes
one for theirs.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import httpx

from vfnb import loops
from vfnb.interception.http import SSE_HEADERS
from vfnb.interception.router import route

if TYPE_CHECKING:
    from vfnb.interception.session import Session

__all__ = ["InProcessTransport", "transport"]

_Head = tuple[int, dict[str, str]]


class _Transport:
    """The transport but for its base, which is `library`'s."""

    library: Any = httpx

    def __init__(self, session: Session) -> None:
        self._session = session

    async def handle_async_request(self, request: Any) -> Any:
        """Answer one request.

        Raises:
            httpx.ReadError: the session was closed before the first byte.
            httpx.RemoteProtocolError: a stream was cut (while it is read).
        """
        body = await request.aread()
        channel = _Channel(self.library)

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
        stream = _stream(self.library)(channel, running)
        return self.library.Response(status, headers=headers, stream=stream, request=request)


class InProcessTransport(_Transport, httpx.AsyncBaseTransport):
    """Give it to `httpx.AsyncClient`; scheme and host of the URL do not matter, the path does.

    Calls are recorded as those that come through the server. Cancelling a request, or closing a stream
    early, cancels the model call and records it as cancelled.
    """


def transport(session: Session, library: Any = httpx) -> Any:
    """The same for the `AsyncClient` of a module that is made like httpx."""
    return InProcessTransport(session) if library is httpx else _made(library)(session)


@functools.cache
def _made(library: Any) -> type[_Transport]:
    return type("InProcessTransport", (_Transport, library.AsyncBaseTransport), {"library": library})


@functools.cache
def _stream(library: Any) -> type[_Stream]:
    return type("Stream", (_Stream, library.AsyncByteStream), {})


def _start(work: Coroutine[Any, Any, None], channel: _Channel) -> asyncio.Task[None] | Future[None]:
    engine = loops.engine()
    running: asyncio.Task[None] | Future[None]
    running = asyncio.get_running_loop().create_task(work) if engine.inside else engine.submit(work)
    running.add_done_callback(channel.over)
    return running


class _Channel:
    """A sink whose reader is on the loop that made it."""

    def __init__(self, library: Any) -> None:
        self._library = library
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
        self._put(self._library.RemoteProtocolError(message))

    def over(self, running: asyncio.Task[None] | Future[None]) -> None:
        """The call has ended; if it was cancelled or failed, the reader must not wait on."""
        error = None if running.cancelled() else running.exception()
        if running.cancelled() or error is not None:
            self._put(self._library.ReadError(f"the session ended the call: {error or 'closed'}"))

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


class _Stream:
    """The body of an answer but for its base."""

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
