"""A bad network between us and the provider: a complete answer or a typed error, and nothing hangs."""

from __future__ import annotations

import asyncio
import time

import aiohttp
import pytest
from support.faults import FAULTS, FaultProxy
from support.rollouts import Served, body, client, served, until
from support.upstream import Say, Upstream

from vfnb.clients import Relay
from vfnb.errors import ModelError
from vfnb.trace import ModelCall


async def ask(http: aiohttp.ClientSession, rollout: Served, number: int, stream: bool) -> str:
    """`ok`, `cut`, `error` (a status or an error in the stream)."""
    asked = body([{"role": "user", "content": f"q{number}"}], stream=stream)
    try:
        async with http.post(rollout.url, json=asked) as answer:
            raw = await answer.read()
            if answer.status != 200 or b'"error"' in raw:
                return "error"
            assert b"[DONE]" in raw or not stream
            return "ok"
    except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError):
        return "cut"


def is_typed(call: ModelCall) -> bool:
    known = {cls.__name__ for cls in ModelError.__subclasses__()}
    return call.error is not None and call.error.type in known


@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_ends_in_an_answer_or_a_typed_error(fault: str, stream: bool, retries: int) -> None:
    with (
        Upstream([Say(text="an answer of some length, in several events")]) as upstream,
        FaultProxy(upstream.url, [fault]) as proxy,
        served(Relay("mock", base_url=proxy.url, max_retries=retries, retry_wait=0.01)) as rollout,
    ):

        async def main() -> list[str]:
            async with client(rollout) as http, asyncio.timeout(20):
                return [await ask(http, rollout, number, stream) for number in range(2)]

        start = time.monotonic()
        first, second = asyncio.run(main())
        assert time.monotonic() - start < 15
        assert second == "ok" and proxy.seen[0] == fault
        calls = rollout.trace.calls
        broken = [call for call in calls if call.reply_node is None]
        assert all(is_typed(call) for call in broken)
        asyncio.run(until(lambda: not rollout.session.pending()))
        assert rollout.session.fault is None
        harmless = fault in ("slow", "duplicate") or (fault == "no_end" and not stream)
        assert bool(broken) != harmless
        if first == "ok":
            assert len(calls) == 2 + len(broken)
            asked = [call for call in calls if call.retry_of is not None]
            assert len(asked) == len(broken)
        else:
            assert not harmless and len(calls) == 2
            assert calls[0].error is not None and not calls[0].delivered


def test_many_rollouts_over_a_bad_network() -> None:
    plan = ["reset", None, "rate_limit", "truncate", None, "server_error", "no_end", "slow", "refuse"]
    with (
        Upstream([Say(text="an answer of some length")]) as upstream,
        FaultProxy(upstream.url, lambda number: plan[number % len(plan)]) as proxy,
        served(Relay("mock", base_url=proxy.url, max_retries=1, retry_wait=0.01)) as rollout,
    ):

        async def main() -> list[str]:
            connector = aiohttp.TCPConnector(limit=16)
            async with (
                aiohttp.ClientSession(headers=rollout.headers, connector=connector) as http,
                asyncio.timeout(40),
            ):
                return await asyncio.gather(*(ask(http, rollout, n, bool(n % 2)) for n in range(60)))

        outcomes = asyncio.run(main())
        assert len(outcomes) == 60 and set(outcomes) <= {"ok", "cut", "error"}
        calls = rollout.trace.calls
        assert sum(call.reply_node is not None for call in calls) == outcomes.count("ok")
        assert all(is_typed(call) for call in calls if call.reply_node is None)
        asyncio.run(until(lambda: not rollout.session.pending()))
