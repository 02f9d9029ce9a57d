"""How hard one endpoint may be driven: calls at once, calls and tokens per minute, pauses it asked for.

All clients of a process with the same endpoint, key variable and model share one `Endpoint`, so that a
`Retry-After` told to one rollout holds for all. Waiting is first come, first served.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from weakref import WeakValueDictionary

__all__ = ["Endpoint", "Permit", "endpoint"]

_WINDOW = 60.0


class Endpoint:
    """The shared limits of one endpoint. None = no limit; the settings of the newest client hold."""

    def __init__(self) -> None:
        self.max_concurrency: int | None = None
        self.rpm: int | None = None
        self.tpm: int | None = None
        self.active = 0
        """Calls that hold a permit."""
        self._paused_until = 0.0
        self._waiting: deque[tuple[asyncio.Future[Permit], int]] = deque()
        self._starts: deque[float] = deque()
        self._tokens: deque[Permit] = deque()
        self._sum = 0
        self._timer: asyncio.TimerHandle | None = None

    def configure(self, max_concurrency: int | None, rpm: int | None, tpm: int | None) -> None:
        """Set the limits that are given."""
        self.max_concurrency = max_concurrency or self.max_concurrency
        self.rpm = rpm or self.rpm
        self.tpm = tpm or self.tpm

    def pause(self, seconds: float) -> None:
        """Start no call for this long."""
        self._paused_until = max(self._paused_until, time.monotonic() + seconds)

    def try_acquire(self, tokens: int = 0) -> Permit | None:
        """A turn if there is one now and nobody waits."""
        return self._grant(tokens) if not self._waiting and self._delay(tokens) == 0 else None

    async def acquire(self, tokens: int = 0) -> Permit:
        """Wait for a turn. Cancelling gives it up.

        Args:
            tokens: expected size of the call; corrected by `Permit.release`.
        """
        permit = self.try_acquire(tokens)
        if permit is not None:
            return permit
        waiter: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        entry = (waiter, tokens)
        self._waiting.append(entry)
        self._pump()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                waiter.result().release(0)
            elif entry in self._waiting:
                self._waiting.remove(entry)
                self._pump()
            raise

    def _delay(self, tokens: int) -> float | None:
        """Seconds until a call of this size may start; None = when another one ends."""
        now = time.monotonic()
        if self.max_concurrency is not None and self.active >= self.max_concurrency:
            return None
        delay = max(0.0, self._paused_until - now)
        if self.rpm is not None:
            while self._starts and self._starts[0] <= now - _WINDOW:
                self._starts.popleft()
            if len(self._starts) >= self.rpm:
                delay = max(delay, self._starts[-self.rpm] + _WINDOW - now)
        if self.tpm is not None:
            while self._tokens and self._tokens[0].start <= now - _WINDOW:
                self._sum -= self._tokens.popleft().tokens
            if self._tokens and self._sum + tokens > self.tpm:
                delay = max(delay, self._tokens[0].start + _WINDOW - now)
        return delay

    def _grant(self, tokens: int) -> Permit:
        permit = Permit(self, tokens)
        self.active += 1
        if self.rpm is not None:
            self._starts.append(permit.start)
        if self.tpm is not None:
            self._tokens.append(permit)
            self._sum += tokens
        return permit

    def _pump(self) -> None:
        """Let those at the head of the queue go who may, and look again when the next one may."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            waiter, tokens = self._waiting[0]
            if waiter.done():
                self._waiting.popleft()
                continue
            delay = self._delay(tokens)
            if delay == 0:
                self._waiting.popleft()
                waiter.set_result(self._grant(tokens))
                continue
            if delay is not None:
                self._timer = waiter.get_loop().call_later(delay, self._pump)
            return

    def _settle(self, permit: Permit, used: int | None) -> None:
        self.active -= 1
        if used is not None and permit in self._tokens:
            self._sum += used - permit.tokens
            permit.tokens = used
        self._pump()


class Permit:
    """The right to make one call."""

    __slots__ = ("_endpoint", "_open", "start", "tokens")

    def __init__(self, endpoint: Endpoint, tokens: int) -> None:
        self._endpoint = endpoint
        self._open = True
        self.tokens = tokens
        self.start = time.monotonic()

    @property
    def counted(self) -> bool:
        """Whether the call's real size matters."""
        return self._endpoint.tpm is not None

    def release(self, used: int | None = None) -> None:
        """The call has ended. `used` is its real size in tokens, if known. Only the first release counts."""
        if self._open:
            self._open = False
            self._endpoint._settle(self, used)


_endpoints: WeakValueDictionary[tuple[str | None, ...], Endpoint] = WeakValueDictionary()


def endpoint(base_url: str | None, key_var: str | None, model: str) -> Endpoint:
    """The one endpoint of this process for these three; it lives as long as a client uses it."""
    key = (base_url, key_var, model)
    found = _endpoints.get(key)
    if found is None:
        found = _endpoints[key] = Endpoint()
    return found
