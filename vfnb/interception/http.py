"""One HTTP request: credential, body, and the sink that writes its answer."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from aiohttp import HttpVersion11, web

from vfnb.interception.router import BodyError

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.web_request import BaseRequest

__all__ = ["SSE_HEADERS", "HttpSink", "Sent", "credential", "read_body"]

SSE_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}


def credential(headers: Mapping[str, str]) -> str:
    """The rollout's key in any of the four forms that clients use; empty if there is none."""
    value = headers.get("Authorization")
    if value is not None:
        scheme, _, key = value.partition(" ")
        return key.strip() if scheme.lower() == "bearer" else ""
    return headers.get("x-api-key") or headers.get("api-key") or headers.get("x-goog-api-key") or ""


async def read_body(request: BaseRequest, limit: int) -> bytes:
    """The decompressed body, at most `limit` bytes.

    Raises:
        BodyError: 413 if it is longer, 415 for an unknown encoding, 400 if it cannot be decompressed.
    """
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    content = request.content
    first = await content.readany()
    if content.at_eof():
        body = first
    else:
        pieces, size = [first], len(first)
        while not content.at_eof():
            piece = await content.readany()
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            pieces.append(piece)
        body = b"".join(pieces)
    encoding = request.headers.get("Content-Encoding")
    if encoding is not None and encoding.lower() != "identity":
        return _decompress(body, encoding.lower(), limit)
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> BodyError:
    return BodyError(413, f"request body is larger than {limit} bytes")


def _decompress(body: bytes, encoding: str, limit: int) -> bytes:
    try:
        if encoding in ("gzip", "x-gzip", "deflate"):
            inflater = zlib.decompressobj(wbits=47 if encoding != "deflate" else 15)
            plain = inflater.decompress(body, limit + 1)
        elif encoding == "zstd":
            import zstandard

            with zstandard.ZstdDecompressor().stream_reader(body, read_across_frames=True) as reader:
                plain = reader.read(limit + 1)
        else:
            raise BodyError(415, f"Content-Encoding {encoding!r} is not supported; use gzip, zstd or none")
    except BodyError:
        raise
    except Exception as error:
        raise BodyError(400, f"request body is not valid {encoding}: {error}") from error
    if len(plain) > limit:
        raise _too_large(limit)
    return plain


class HttpSink:
    """Writes an answer to the connection that the request came on.

    The head and the chunk framing are written here, in one piece with the data: aiohttp's own response
    objects cost more than all the rest of a small call.
    """

    __slots__ = ("_chunked", "_dead", "_request", "finished", "opened", "started")

    def __init__(self, request: BaseRequest) -> None:
        self._request = request
        self._dead = False
        self._chunked = request.version >= HttpVersion11
        self.opened = False
        """Whether a stream has begun."""
        self.started = False
        """Whether any answer has begun."""
        self.finished = False

    def alive(self) -> bool:
        """Whether the connection is open, or was when the whole answer was handed to it."""
        if self._dead or self.finished:
            return not self._dead
        transport = self._request.transport
        return transport is not None and not transport.is_closing()

    async def _send(self, data: bytes) -> None:
        transport = self._request.transport
        if self._dead or transport is None or transport.is_closing():
            self._dead = True
            return
        transport.write(data)
        if transport.get_write_buffer_size():
            try:
                await self._request.writer.drain()
            except ConnectionError:
                self._dead = True

    async def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Send a whole answer."""
        self.started = self.finished = True
        head = self._head(status, headers) + b"Content-Length: %d\r\n\r\n" % len(body)
        await self._send(head if self._request.method == "HEAD" else head + body)

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
        transport = self._request.transport
        self._dead = self.started = True
        if transport is not None:
            transport.close()

    @property
    def keep_alive(self) -> bool:
        """Whether the connection may carry another request."""
        return self.finished and not self._dead and self._request.keep_alive

    def _begin(self) -> bytes:
        if self.opened:
            return b""
        self.opened = self.started = True
        return self._head(200, SSE_HEADERS) + (
            b"Transfer-Encoding: chunked\r\n\r\n" if self._chunked else b"\r\n"
        )

    def _chunk(self, data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data

    def _head(self, status: int, headers: dict[str, str]) -> bytes:
        closing = not (self._chunked and self._request.keep_alive)
        return _head(status, tuple(headers.items()), closing)


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


class Sent(web.StreamResponse):
    """Tells aiohttp that the answer is out already."""

    def __init__(self, sink: HttpSink) -> None:
        super().__init__()
        self._sink = sink

    @property
    def keep_alive(self) -> bool | None:
        """Whether the connection may carry another request."""
        return self._sink.keep_alive

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter | None:
        """Nothing is left to send."""
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to send."""
