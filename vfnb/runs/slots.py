"""How many rollouts may be under way at a time, over one run or over several that advance together."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

__all__ = ["Share", "Slots"]


@dataclass(slots=True, eq=False)
class Share:
    """How far one run is, for a fair choice of who goes on."""

    begun: int
    """Rollouts that have begun, those taken over from disk included."""
    total: int


class Slots:
    """`n` slots. A free one goes to the run that has begun the smallest part of its work. Engine loop only."""

    def __init__(self, n: int) -> None:
        self._free = n
        self._waiting: dict[Share, deque[asyncio.Future[None]]] = {}
        self._due = False

    @contextlib.asynccontextmanager
    async def turn(self, share: Share) -> AsyncIterator[None]:
        """Wait for a slot and hold it."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(share, deque()).append(mine)
        self._soon()
        try:
            await mine
            yield
        finally:
            if mine.done() and not mine.cancelled():
                self._free += 1
                self._soon()

    def _soon(self) -> None:
        """Hand slots out once all who ask now have asked, or the first run to start would get them all."""
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._hand_out)

    def _hand_out(self) -> None:
        self._due = False
        while self._free and self._waiting:
            share = min(self._waiting, key=lambda one: one.begun / max(1, one.total))
            queue = self._waiting[share]
            waiter = queue.popleft()
            if not queue:
                del self._waiting[share]
            if not waiter.done():  # one that was cancelled is
                waiter.set_result(None)
                self._free -= 1
                share.begun += 1
