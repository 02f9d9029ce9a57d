"""Which request is a retry of which call."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vfnb.interception.exchange import Exchange

__all__ = ["Retries", "marked_retry"]


def marked_retry(headers: Mapping[str, str]) -> bool:
    """Whether the client itself says that this is a retry. Most never do."""
    return headers.get("x-stainless-retry-count", "0") not in ("0", "")


class Retries:
    """Calls of one session by the digest of their canonical request.

    The same request again joins a call in flight whose reader left, takes an answer that nobody received,
    is a new try after a failure, and a new sample after a delivered answer. Two equal requests at the same
    time, with nothing that says retry, are two samples.
    """

    __slots__ = ("_flying", "_kept", "_last", "_limit", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._flying: list[Exchange] = []
        self._kept: OrderedDict[int, Exchange] = OrderedDict()
        self._last: dict[bytes, tuple[int, bool]] = {}

    @property
    def flying(self) -> list[Exchange]:
        """The calls in flight, oldest first."""
        return self._flying

    def __bool__(self) -> bool:
        """Whether there is anything that ages."""
        return bool(self._flying or self._kept)

    def find(self, digest: bytes, token: str | None, *, marked: bool) -> Exchange | None:
        """The call whose answer this request should get, or None if it needs a call of its own."""
        for exchange in [*self._flying, *self._kept.values()]:
            if exchange.digest != digest:
                continue
            if exchange.ended is None:
                if marked or (token is not None and token == exchange.token) or not exchange.watched():
                    return exchange
            elif not exchange.delivered or (token is not None and token == exchange.token):
                return exchange
        return None

    def retry_of(self, digest: bytes) -> int | None:
        """Index of the last call with this request, if it failed."""
        index, failed = self._last.get(digest, (0, False))
        return index if failed else None

    def begin(self, exchange: Exchange) -> None:
        """A call starts."""
        self._flying.append(exchange)

    def note(self, digest: bytes, index: int, *, failed: bool) -> None:
        """A call is recorded."""
        self._last[digest] = (index, failed)

    def end(self, exchange: Exchange) -> None:
        """A call is over; its answer is kept if a retry may still ask for it."""
        self._flying.remove(exchange)
        wanted = not exchange.delivered or exchange.token is not None
        if exchange.failed or exchange.ended is None or not wanted or exchange.size > self._limit:
            return
        self._kept[id(exchange)] = exchange
        self._size += exchange.size
        while self._size > self._limit:
            self._drop(next(iter(self._kept)))

    def taken(self, exchange: Exchange) -> None:
        """A kept answer was received after all."""
        if exchange.delivered and exchange.token is None and id(exchange) in self._kept:
            self._drop(id(exchange))

    def expire(self, before: float) -> None:
        """Forget answers that ended before this loop time."""
        for key in [k for k, kept in self._kept.items() if kept.ended is not None and kept.ended < before]:
            self._drop(key)

    def clear(self) -> None:
        """Forget all kept answers."""
        self._kept.clear()
        self._size = 0

    def _drop(self, key: int) -> None:
        self._size -= self._kept.pop(key).size
