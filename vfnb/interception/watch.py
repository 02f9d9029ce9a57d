"""The clock of one session: keepalives, calls that nobody waits for, answers that nobody fetched."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vfnb.interception.exchange import Exchange
    from vfnb.interception.retries import Retries
    from vfnb.interception.settings import Settings

__all__ = ["Watch"]


class Watch:
    """Ticks only while something can age, so a call that is answered at once costs one timer per second."""

    __slots__ = ("_period", "_retries", "_settings", "_timer")

    def __init__(self, retries: Retries, settings: Settings) -> None:
        self._retries = retries
        self._settings = settings
        shortest = min(settings.keepalive_after, settings.keepalive_every, settings.finish_within)
        self._period = max(0.02, min(1.0, shortest / 2))
        self._timer: asyncio.TimerHandle | None = None

    def wake(self) -> None:
        """Tick from now on."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._period, self._tick)

    def stop(self) -> None:
        """Tick no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        self._retries.expire(now - self._settings.keep_for)
        for exchange in self._retries.flying:
            self._look(exchange, now)
        if self._retries:
            self.wake()

    def _look(self, exchange: Exchange, now: float) -> None:
        if exchange.watched():
            exchange.left = None
            quiet = not exchange.answered and now - exchange.started >= self._settings.keepalive_after
            if exchange.stream and quiet and now - exchange.pinged >= self._settings.keepalive_every:
                exchange.ping(now)
        elif exchange.left is None:
            exchange.left = now
        elif now - exchange.left >= self._settings.finish_within and exchange.task is not None:
            exchange.why = "its client hung up and nobody asked again"
            exchange.task.cancel()
