"""One HTTP request as it comes in: credential, head and body."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from vfnb.interception.router import BodyError

if TYPE_CHECKING:
    from vfnb.interception.session import Session

__all__ = ["SSE_HEADERS", "Incoming", "credential", "decompress"]

SSE_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}


class Incoming:
    """One request while it is read. Header names are in lower case; of a repeated one the first counts."""

    __slots__ = (
        "asked",
        "complete",
        "expects",
        "head_done",
        "headers",
        "keep_alive",
        "limit",
        "method",
        "modern",
        "path",
        "pieces",
        "problem",
        "session",
        "size",
        "upgrades",
        "url",
    )

    def __init__(self, limit: int) -> None:
        self.url = b""
        self.path = ""
        self.method = ""
        self.headers: dict[str, str] = {}
        self.head_done = False
        self.modern = True
        """HTTP/1.1: the answer may be chunked."""
        self.keep_alive = False
        self.expects = False
        """The client waits for `100 Continue` before it sends the body."""
        self.upgrades = False
        """It asks for another protocol; the parser has not looked at its body."""
        self.session: Session | None = None
        self.limit = limit
        self.pieces: list[bytes] = []
        self.size = 0
        self.problem: BodyError | None = None
        """Why the body is not read."""
        self.complete = False
        """All of it has come."""
        self.asked = False
        """It has been handed on to be answered."""

    @property
    def wanted(self) -> bool:
        """Whether its body is kept."""
        return self.session is not None and self.problem is None

    def add(self, data: bytes) -> None:
        """Keep a piece of the body, up to the limit."""
        if not self.wanted:
            return
        self.size += len(data)
        if self.size > self.limit:
            self.refuse()
        else:
            self.pieces.append(data)

    def refuse(self) -> None:
        """The body is too long; what came of it is dropped."""
        self.problem = _too_large(self.limit)
        self.pieces.clear()

    def body(self) -> bytes:
        """The decompressed body.

        Raises:
            BodyError: 413 if it is longer than the limit, 415 for an unknown encoding, 400 if it cannot be
                decompressed.
        """
        if self.problem is not None:
            raise self.problem
        pieces, self.pieces = self.pieces, []
        raw = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        encoding = self.headers.get("content-encoding")
        return raw if encoding is None else decompress(raw, encoding.lower(), self.limit)


def credential(headers: Mapping[str, str], path: str = "") -> str:
    """The rollout's key in any of the forms that clients use, four headers and `?key=`; empty if there is none.

    Header names are in lower case.
    """
    value = headers.get("authorization")
    if value is not None:
        scheme, _, key = value.partition(" ")
        return key.strip() if scheme.lower() == "bearer" else ""
    key = headers.get("x-api-key") or headers.get("api-key") or headers.get("x-goog-api-key") or ""
    if not key and "key=" in path:
        return dict(parse_qsl(path.partition("?")[2])).get("key", "")
    return key


def _too_large(limit: int) -> BodyError:
    return BodyError(413, f"request body is larger than {limit} bytes")


def decompress(body: bytes, encoding: str, limit: int) -> bytes:
    """A body without its content encoding.

    Raises:
        BodyError: 413 if it is longer than `limit` bytes, 415 for an unknown encoding, 400 if it is damaged.
    """
    try:
        if encoding == "identity":
            plain = body
        elif encoding in ("gzip", "x-gzip", "deflate"):
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
