"""Where the answer of one call goes: an HTTP connection or a queue in this process."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Collected", "Sink"]


class Sink(Protocol):
    """Receives one answer: either one `reply`, or `write`s and then `end` or `abort`.

    No method raises because the reader is gone; `alive` turns false instead.
    """

    def alive(self) -> bool:
        """Whether somebody still reads, or did when the whole answer was handed over."""
        ...

    @property
    def opened(self) -> bool:
        """Whether bytes of a stream, and with them the status 200, are on their way."""
        ...

    async def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """A whole answer."""
        ...

    async def write(self, data: bytes) -> None:
        """The next bytes of an event stream; the first commit status 200 and the headers."""
        ...

    async def end(self, data: bytes = b"") -> None:
        """The last bytes; the stream is complete."""
        ...

    def abort(self) -> None:
        """Cut: the reader sees a stream or a connection that breaks off."""
        ...


class Collected:
    """A sink that keeps the answer in memory."""

    __slots__ = ("_gone", "_pieces", "aborted", "complete", "headers", "opened", "status")

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.opened = False
        self.complete = False
        self.aborted = False
        self._pieces: list[bytes] = []
        self._gone = False

    @property
    def body(self) -> bytes:
        """All bytes so far."""
        return b"".join(self._pieces)

    def leave(self) -> None:
        """The reader goes away."""
        self._gone = True

    def alive(self) -> bool:
        """True until `leave`."""
        return not self._gone

    async def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Keep a whole answer."""
        self.status, self.headers = status, headers
        self._pieces.append(body)
        self.complete = True

    async def write(self, data: bytes) -> None:
        """Keep a piece of a stream."""
        self.opened = True
        self.status = 200
        self._pieces.append(data)

    async def end(self, data: bytes = b"") -> None:
        """Keep the last bytes and mark the stream complete."""
        if data:
            await self.write(data)
        self.complete = True

    def abort(self) -> None:
        """Mark the answer cut."""
        self.aborted = True
