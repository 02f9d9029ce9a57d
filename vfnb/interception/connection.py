"""One client's connection to the server: requests in, one answer at a time out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from vfnb.dialects import get
from vfnb.interception.http import Incoming, credential
from vfnb.interception.httpsink import HttpSink
from vfnb.interception.router import refuse, route
from vfnb.utils.headers import named

if TYPE_CHECKING:
    from vfnb.interception.session import Session

__all__ = ["Connection"]

_MAX_HEAD = 128 << 10
_LINGER = 1.0  # a client that still sends when it is refused reads the refusal only if the port stays open


class Connection(asyncio.Protocol):
    """Parses requests with llhttp and answers them in their order.

    Args:
        sessions: key -> session.
        everybody: the server's open connections; this one adds and removes itself.
        body_limit: largest body, in bytes.
    """

    transport: asyncio.Transport
    on_header: Callable[[bytes, bytes], object]

    def __init__(self, sessions: Mapping[str, Session], everybody: set[Connection], body_limit: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._sessions = sessions
        self._everybody = everybody
        self._limit = body_limit
        self._got: dict[bytes, bytes] = {}
        self.on_header = self._got.setdefault  # no Python call for each: of a repeated one the first counts
        self._parser = HttpRequestParser(self)
        self._coming: Incoming | None = None
        self._waiting: deque[Incoming] = deque()
        self._head_size = 0
        self._deaf = False
        self._broken: str | None = None
        self._protocol: str | None = None
        self._room: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None
        """Answers the current request."""
        self.full = False
        """The client reads slower than it is sent to."""
        self.since = self._loop.time()
        """When the current request or pause began, or its last piece of body came; in loop time."""

    # transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._everybody.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._everybody.discard(self)
        self._waiting.clear()
        self._coming = None
        self.resume_writing()

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    @property
    def open(self) -> bool:
        """Whether bytes can still be sent."""
        return not self.transport.is_closing()

    async def drained(self) -> None:
        """Wait until the client has read most of what was sent, or is gone."""
        while self.full:
            if self._room is None:
                self._room = self._loop.create_future()
            await asyncio.shield(self._room)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as found:
            self._read_on(data[found.args[0] :])
        except HttpParserError as error:
            self._refuse(str(error))
        coming = self._coming
        if coming is None:
            return
        if coming.head_done:
            self._got.clear()  # trailers
            self.since = self._loop.time()
        else:
            self._head_size += len(data)
            if self._head_size > _MAX_HEAD:
                self._refuse(f"the request's head is longer than {_MAX_HEAD} bytes")

    def stale(self, now: float, idle: float, slow: float) -> bool:
        """Whether there was no request for `idle` seconds, or one has not come in for `slow`."""
        if self.task is not None:
            return False
        return now - self.since > (idle if self._coming is None else slow)

    def close(self) -> None:
        """Close when all that was written is sent."""
        self.transport.close()

    # parser

    def on_message_begin(self) -> None:
        self._coming = Incoming(self._limit)
        self._got.clear()
        self._head_size = 0
        if self.task is not None:
            self.transport.pause_reading()  # one request ahead is enough
        else:
            self.since = self._loop.time()

    def on_url(self, url: bytes) -> None:
        assert self._coming is not None
        self._coming.url += url

    def on_headers_complete(self) -> None:
        request, parser = self._coming, self._parser
        assert request is not None
        headers = request.headers = named(self._got)
        request.head_done = True
        request.method = parser.get_method().decode("latin-1")
        request.path = request.url.decode("latin-1")
        request.modern = parser.get_http_version() != "1.0"
        request.keep_alive = parser.should_keep_alive()
        request.session = self._sessions.get(credential(headers, request.path))
        if self._protocol is not None:
            headers["upgrade"], self._protocol = self._protocol, None
        if parser.should_upgrade():
            request.upgrades = True
            return
        length = headers.get("content-length")
        if length is not None and int(length) > self._limit and request.session is not None:
            request.refuse()
        if "expect" in headers and headers["expect"].lower() == "100-continue":
            request.expects = True
            if self.task is None:
                self._expected(request)
        if request.problem is not None:
            self._ask(request)

    def on_body(self, data: bytes) -> None:
        request = self._coming
        assert request is not None
        request.add(data)
        if request.problem is not None:
            self._ask(request)

    def on_message_complete(self) -> None:
        request = self._coming
        assert request is not None
        if request.upgrades:
            return
        request.complete = True
        self._coming = None
        self._ask(request)

    def _read_on(self, rest: bytes) -> None:
        """No other protocol is spoken here: read the request again as one that does not ask for it."""
        request = self._coming
        assert request is not None
        if request.method == "CONNECT":
            self._refuse("this is no proxy")
            return
        self._parser = HttpRequestParser(self)
        self._protocol = request.headers.pop("upgrade", "")
        request.headers["connection"] = "close"
        lines = [f"{name}: {value}\r\n" for name, value in request.headers.items()]
        head = f"{request.method} {request.path} HTTP/1.1\r\n{''.join(lines)}\r\n"
        self.data_received(head.encode("latin-1") + rest)

    # answers

    def _expected(self, request: Incoming) -> None:
        """Tell a client that waits to go on, or answer it at once if its body is not wanted."""
        request.expects = False
        if request.wanted and request.method == "POST":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        else:
            self._ask(request)

    def _ask(self, request: Incoming) -> None:
        """Answer a request now, or after those before it. Nothing follows one that is not read to its end."""
        if request.asked or self._deaf:
            return
        request.asked = True
        if not request.complete:
            self._deaf = True
            request.keep_alive = False
        if self.task is None:
            self.task = self._loop.create_task(self._serve(request))
        else:
            self._waiting.append(request)

    async def _serve(self, request: Incoming) -> None:
        sink = HttpSink(self, request)
        try:
            await route(request.session, request.method, request.path, request.headers, request.body, sink)
        except Exception as error:
            context = {"message": "a request could not be answered", "exception": error}
            self._loop.call_exception_handler(context)
        finally:
            self.task = None
            if self.open:
                self._served(request, sink)

    def _served(self, request: Incoming, sink: HttpSink) -> None:
        """Go on with the next request."""
        if not sink.keep_alive:
            if sink.finished and not request.complete:
                self._linger()
            else:
                self.close()  # also when nobody answered: better broken than hanging
            return
        self.since = self._loop.time()
        if self._waiting:
            self.task = self._loop.create_task(self._serve(self._waiting.popleft()))
            return
        if self._broken is not None:
            self._refuse(self._broken)
            return
        self.transport.resume_reading()
        if self._coming is not None and self._coming.expects:
            self._expected(self._coming)

    def _refuse(self, reason: str) -> None:
        """Answer what is not HTTP, after the requests before it."""
        self._deaf = True
        self._broken = reason
        if self.task is None and self.open:
            self._coming = None
            self.task = self._loop.create_task(self._malformed(reason))

    async def _malformed(self, reason: str) -> None:
        request = Incoming(self._limit)
        try:
            await refuse(HttpSink(self, request), get("chat"), 400, f"not an HTTP request: {reason}")
        finally:
            self.task = None
            if self.open:
                self._linger()

    def _linger(self) -> None:
        """Say that nothing more comes, and let the client see it before the port closes."""
        self._deaf = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.transport.resume_reading()
        self._loop.call_later(_LINGER, self.close)
