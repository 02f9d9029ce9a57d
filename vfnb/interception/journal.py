"""Where committed calls go, and what that costs the caller: one await."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from vfnb.trace.records import Delta

__all__ = ["Journal", "Memory"]


class Journal(Protocol):
    """A durable log of what each call added to its trace."""

    def append(self, trace_id: str, delta: Delta, /) -> Awaitable[object]:
        """Hand one delta over; the awaitable is done when it is durable.

        Raises:
            StoreError: (from the awaitable) it could not be written.
        """
        ...


class Memory:
    """A journal for traces that live in memory only."""

    async def append(self, trace_id: str, delta: Delta, /) -> None:
        """Nothing to write."""
