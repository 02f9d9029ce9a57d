"""A rollout that is served: session, pool and port on the engine loop, used from a test's own thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp

from vfnb import loops
from vfnb.clients import ModelClient, Relay
from vfnb.interception import ServerPool, Session
from vfnb.trace import Trace
from vfnb.trace.records import Delta

__all__ = ["MESSAGES", "Journal", "Served", "body", "client", "post", "served", "until"]

MESSAGES = [{"role": "user", "content": "hi"}]


class Journal:
    """A journal in memory whose writes become durable when the test says so.

    `log` has, in order, ("append", call index) and ("durable", call index).
    """

    def __init__(self, *, delay: float = 0.0, error: Exception | None = None) -> None:
        self.deltas: list[Delta] = []
        self.durable = 0
        self.delay = delay
        self.error = error

    async def append(self, trace_id: str, delta: Delta, /) -> None:
        """Note a delta; durable after `delay` seconds."""
        self.deltas.append(delta)
        if self.error is not None:
            raise self.error
        await asyncio.sleep(self.delay)
        self.durable += 1


class Served:
    """A session at `base_url`, on the engine loop."""

    def __init__(self, session: Session, pool: ServerPool, base_url: str) -> None:
        self.session = session
        self.pool = pool
        self.base_url = base_url
        self.url = f"{base_url}/v1/chat/completions"
        self.headers = {"Authorization": f"Bearer {session.key}"}

    @property
    def trace(self) -> Trace:
        """What was recorded."""
        return self.session.trace

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the engine loop."""
        return loops.engine().run(work)


@contextmanager
def served(client: ModelClient | str, **settings: Any) -> Iterator[Served]:
    """A served session over `client`, or over a relay to this root URL."""
    model = Relay("mock", base_url=client, retry_wait=0.01) if isinstance(client, str) else client
    engine = loops.engine()

    async def start() -> Served:
        session = Session(Trace(), model, **settings)
        pool = ServerPool()
        endpoint = await pool.register(session)
        return Served(session, pool, endpoint.base_url)

    async def stop(rollout: Served) -> None:
        await asyncio.wait_for(rollout.session.close(), 10)
        await asyncio.wait_for(rollout.pool.close(), 10)
        await model.close()
        await asyncio.sleep(0.01)  # closed sockets leave the loop

    rollout = engine.run(start())
    try:
        yield rollout
    finally:
        engine.run(stop(rollout))


def body(messages: list[dict[str, Any]] | None = None, **keys: Any) -> dict[str, Any]:
    """A Chat request."""
    return {"model": "asked", "messages": MESSAGES if messages is None else messages, **keys}


def post(rollout: Served, *bodies: Any, headers: dict[str, str] | None = None) -> list[tuple[int, bytes]]:
    """Send requests one after another; status and body of each."""

    async def main() -> list[tuple[int, bytes]]:
        async with client(rollout, headers) as http:
            answers = []
            for entry in bodies:
                async with http.post(rollout.url, json=entry) as answer:
                    answers.append((answer.status, await answer.read()))
            return answers

    return asyncio.run(main())


@asynccontextmanager
async def client(
    rollout: Served, headers: dict[str, str] | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    """An HTTP client with the rollout's key."""
    async with aiohttp.ClientSession(headers=rollout.headers | (headers or {})) as http:
        yield http


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait for something that happens on another thread."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
