"""One HTTP request: credential, body, and the sink that writes its answer."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from aiohttp import web

from vfnb.interception.router import BodyError

if TYPE_CHECKING:
    from aiohttp.web_request import BaseRequest

__all__ = ["SSE_HEADERS", "HttpSink", "credential", "read_body"]

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
    """Writes an answer to the connection that the request came on."""

    __slots__ = ("_dead", "_request", "response")

    def __init__(self, request: BaseRequest) -> None:
        self._request = request
        self._dead = False
        self.response: web.StreamResponse | None = None

    def alive(self) -> bool:
        """Whether the connection is open."""
        if self._dead:
            return False
        transport = self._request.transport
        return transport is not None and not transport.is_closing()

    @property
    def opened(self) -> bool:
        """Whether the answer has begun."""
        return self.response is not None

    async def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Send a whole answer; its last byte is handed to the socket before this returns."""
        response = web.Response(status=status, headers=headers, body=body)
        self.response = response
        if not self.alive():
            return
        try:
            await response.prepare(self._request)
            await response.write_eof()
        except (ConnectionError, RuntimeError):
            self._dead = True

    async def write(self, data: bytes) -> None:
        """Send bytes of a stream at once."""
        if not self.alive():
            return
        try:
            if self.response is None:
                self.response = web.StreamResponse(headers=SSE_HEADERS)
                await self.response.prepare(self._request)
            await self.response.write(data)
        except (ConnectionError, RuntimeError):
            self._dead = True

    async def end(self) -> None:
        """Close the chunked body."""
        if self.response is None or not self.alive():
            return
        try:
            await self.response.write_eof()
        except (ConnectionError, RuntimeError):
            self._dead = True

    def abort(self) -> None:
        """Break the connection."""
        transport = self._request.transport
        self._dead = True
        if transport is not None:
            transport.close()
