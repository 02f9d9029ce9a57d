"""The raw bytes of one upstream answer, as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from vfnb.clients.failures import from_exception
from vfnb.clients.wire import Answer, Silent
from vfnb.errors import UpstreamTimeout

__all__ = ["UpstreamStream"]


class UpstreamStream(AsyncIterator[bytes]):
    """An async iterator of chunks. It must be read to its end or closed; both give the permit back.

    Raises (while reading):
        UpstreamCut: the connection broke.
        UpstreamTimeout: nothing came for too long, or the deadline passed.
    """

    def __init__(
        self,
        answer: Answer,
        first: bytes,
        done: Callable[[bytes], object],
        deadline: float | None,
        url: str,
    ) -> None:
        self._answer = answer
        self._first = first
        self._last = b""
        self._done: Callable[[bytes], object] | None = done
        self._url = url
        self._late = False
        self._timer = None
        if deadline is not None:
            self._timer = asyncio.get_running_loop().call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._late = True
        self._answer.fail(Silent("the deadline has passed"))

    async def __anext__(self) -> bytes:
        if self._first:
            chunk, self._first = self._first, b""
            self._last = chunk
            return chunk
        try:
            chunk = await self._answer.readany()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        except (TimeoutError, OSError, ValueError) as error:
            await self.aclose()
            if self._late:
                raise self._timeout() from error
            raise from_exception(error, self._url, started=True) from error
        if chunk:
            self._last = chunk if len(chunk) > 1024 else (self._last + chunk)[-2048:]
            return chunk
        await self.aclose()
        if self._late:
            raise self._timeout()
        raise StopAsyncIteration

    def _timeout(self) -> UpstreamTimeout:
        return UpstreamTimeout(f"{self._url} had not finished its answer at the call's deadline")

    async def aclose(self) -> None:
        """End the upstream call. A second close does nothing."""
        done, self._done = self._done, None
        if done is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._answer.release()
        done(self._last)
