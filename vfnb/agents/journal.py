"""Where a rollout writes what must survive: the run's store, or nothing for an agent that runs alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from vfnb.agents.rollout import Ids
    from vfnb.trace import Delta, Trace

__all__ = ["Journal", "MemoryJournal"]


class Journal(Protocol):
    """Durable record of rollouts; every method is called on the engine loop."""

    async def begin_trace(self, trace: Trace, ids: Ids) -> None:
        """Make the rollout known, with its episode, before anything runs."""

    def append(self, trace_id: str, delta: Delta) -> Awaitable[None]:
        """Keep one model call; done when it is durable."""

    async def finish_trace(self, trace: Trace) -> None:
        """Keep the end state and the scores."""


class MemoryJournal:
    """Keeps nothing: the trace in memory is the only record."""

    async def begin_trace(self, trace: Trace, ids: Ids) -> None:
        """Nothing to keep."""

    def append(self, trace_id: str, delta: Delta) -> Awaitable[None]:
        """Already as durable as it gets."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def finish_trace(self, trace: Trace) -> None:
        """Nothing to keep."""
