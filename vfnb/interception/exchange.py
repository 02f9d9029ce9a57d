"""One model call in flight: its answer so far and everybody who waits for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from vfnb.dialects import Dialect
    from vfnb.interception.sink import Sink
    from vfnb.types import Response

__all__ = ["Exchange", "Whole"]


class Whole(NamedTuple):
    """An answer that is sent in one piece."""

    status: int
    headers: dict[str, str]
    body: bytes


class Exchange:
    """The answer of one upstream call, fanned out to its readers.

    The first reader's request runs the call; a retry of it joins and gets the same bytes from the start.
    Times are loop times in seconds.
    """

    __slots__ = (
        "_done",
        "_ping",
        "call",
        "delivered",
        "dialect",
        "digest",
        "ended",
        "error",
        "failed",
        "framed",
        "last_byte",
        "left",
        "pieces",
        "pinged",
        "response",
        "sinks",
        "size",
        "started",
        "stream",
        "task",
        "token",
        "whole",
        "why",
    )

    def __init__(
        self,
        dialect: Dialect[Any, Any],
        digest: bytes,
        token: str | None,
        sink: Sink,
        now: float,
        *,
        stream: bool,
    ) -> None:
        self.dialect = dialect
        self.digest = digest
        self.token = token
        """The client's `Idempotency-Key`."""
        self.stream = stream
        """The client asked for an event stream, so that keepalives are possible."""
        self.sinks = [sink]
        self.pieces: list[bytes] = []
        """Stream bytes sent so far."""
        self.size = 0
        self.whole: Whole | None = None
        """The answer, if it is sent in one piece."""
        self.call: int | None = None
        """Index of the call's record on the trace, once there is one."""
        self.failed = False
        """The call gave no complete answer; a retry of it is a new call."""
        self.delivered = False
        """Some reader was there until the end of a complete answer."""
        self.started = now
        self.last_byte: float | None = None
        self.pinged = float("-inf")
        self.left: float | None = None
        """When the last reader was found gone."""
        self.why: str | None = None
        """Why the session cancelled the call."""
        self.framed = True
        """Whether the readers want bytes, not only the record."""
        self.response: Response | None = None
        self.error: Exception | None = None
        self.ended: float | None = None
        self.task: asyncio.Task[object] | None = asyncio.current_task()
        self._done: asyncio.Future[None] | None = None
        self._ping: asyncio.Task[None] | None = None

    @property
    def opened(self) -> bool:
        """Whether some reader already has a status 200."""
        return any(sink.opened for sink in self.sinks)

    @property
    def answered(self) -> bool:
        """Whether any byte of an answer exists."""
        return self.whole is not None or bool(self.pieces)

    def watched(self) -> bool:
        """Whether some reader is still there."""
        for sink in self.sinks:  # noqa: SIM110 -- half the cost of any()
            if sink.alive():
                return True
        return False

    async def write(self, data: bytes) -> None:
        """Pass stream bytes on and keep them for readers that join later."""
        if self._ping is not None:
            await self._ping
        self.pieces.append(data)
        self.size += len(data)
        for sink in self.sinks:
            await sink.write(data)

    async def end(self, last: bytes) -> None:
        """The held end of a stream, or all of it."""
        if self._ping is not None:
            await self._ping
        self.pieces.append(last)
        self.size += len(last)
        for sink in self.sinks:
            await sink.end(last)
        self._settle()

    async def reply(self, whole: Whole) -> None:
        """A whole answer."""
        self.whole = whole
        self.size = len(whole.body)
        for sink in self.sinks:
            await sink.reply(*whole)
        self._settle()

    async def fail(self, whole: Whole, event: bytes) -> None:
        """An error: `whole` for those without a byte, `event` as the end of streams that are open."""
        self.failed = True
        self.whole = whole
        if self._ping is not None:
            await self._ping
        for sink in self.sinks:
            if sink.opened:
                await sink.end(event)
            else:
                await sink.reply(*whole)
        self._settle()

    def abort(self) -> None:
        """Break off for all readers."""
        self.failed = True
        for sink in self.sinks:
            sink.abort()
        self._settle()

    def vanish(self) -> None:
        """The call was cancelled: those who joined try anew, those who have bytes are cut."""
        if self.ended is None:
            self.failed = True
            for sink in self.sinks:
                if sink.opened:
                    sink.abort()
            self._settle()

    def _settle(self) -> None:
        self.delivered = not self.failed and self.watched()
        self.ended = asyncio.get_running_loop().time()
        self.task = None
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    async def done(self) -> None:
        """Wait until the call is over."""
        if self.ended is None:
            if self._done is None:
                self._done = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._done)

    async def join(self, sink: Sink) -> bool:
        """Give the answer to one more reader, from the start.

        Returns:
            False if the call ended without an answer and the reader got no byte: it may try anew.
        """
        sent = 0
        while sent < len(self.pieces):
            await sink.write(self.pieces[sent])
            sent += 1
        if self.ended is None:
            self.sinks.append(sink)
            self.left = None
            await self.done()
            return self.answered or sink.opened
        if self.whole is not None:
            await sink.reply(*self.whole)
        elif self.failed:
            if not sink.opened:
                return False
            sink.abort()
        else:
            await sink.end()
        self.delivered = self.delivered or (not self.failed and sink.alive())
        return True

    def ping(self, now: float) -> None:
        """Start a keepalive to all readers; nothing else is written until it is out."""
        self.pinged = now
        self._ping = asyncio.get_running_loop().create_task(self._keepalive())

    async def _keepalive(self) -> None:
        data = self.dialect.keepalive()
        for sink in self.sinks:
            await sink.write(data)
