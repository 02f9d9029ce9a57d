"""The shared limits of an endpoint: order, shares, cancelling."""

from __future__ import annotations

import asyncio
import gc

import pytest

from vfnb.clients.limits import Endpoint, endpoint


def test_one_endpoint_per_server_key_and_model() -> None:
    first = endpoint("u", "K", "m")
    assert endpoint("u", "K", "m") is first
    assert endpoint("u", "K", "n") is not first
    marker = id(first)
    first.configure(3, None, None)
    del first
    gc.collect()
    assert endpoint("u", "K", "m").max_concurrency is None or id(endpoint("u", "K", "m")) == marker


def test_waiting_is_first_come_first_served() -> None:
    async def main() -> list[int]:
        limits = Endpoint()
        limits.configure(1, None, None)
        order: list[int] = []

        async def use(number: int) -> None:
            permit = await limits.acquire()
            order.append(number)
            await asyncio.sleep(0.001)
            permit.release()

        await asyncio.gather(*(use(number) for number in range(6)))
        assert limits.active == 0
        return order

    assert asyncio.run(main()) == list(range(6))


def test_cancelled_waiters_leave_the_queue() -> None:
    async def main() -> None:
        limits = Endpoint()
        limits.configure(1, None, None)
        held = await limits.acquire()
        waiting = [asyncio.create_task(limits.acquire()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        held.release()
        held.release()
        waiting[1].cancel()  # it has been granted in this very tick
        await asyncio.sleep(0.01)
        assert waiting[2].done()
        assert limits.active == 1
        waiting[2].result().release()
        assert limits.active == 0
        assert waiting[0].cancelled()
        assert waiting[1].cancelled()

    asyncio.run(main())


def test_pause_holds_everybody() -> None:
    async def main() -> float:
        limits = Endpoint()
        limits.pause(0.1)
        start = asyncio.get_running_loop().time()
        for permit in await asyncio.gather(limits.acquire(), limits.acquire()):
            permit.release()
        return asyncio.get_running_loop().time() - start

    assert 0.09 < asyncio.run(main()) < 1


def test_calls_per_minute() -> None:
    async def main() -> None:
        limits = Endpoint()
        limits.configure(None, 2, None)
        (await limits.acquire()).release()
        (await limits.acquire()).release()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(limits.acquire(), 0.05)
        limits._starts[0] -= 60.5
        (await asyncio.wait_for(limits.acquire(), 1)).release()

    asyncio.run(main())


def test_tokens_per_minute_are_settled() -> None:
    async def main() -> None:
        limits = Endpoint()
        limits.configure(None, None, 100)
        first = await limits.acquire(90)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(limits.acquire(20), 0.05)
        first.release(10)
        second = await asyncio.wait_for(limits.acquire(20), 1)
        second.release(95)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(limits.acquire(1), 0.05)

    asyncio.run(main())


def test_a_call_larger_than_the_limit_still_goes_alone() -> None:
    async def main() -> None:
        limits = Endpoint()
        limits.configure(None, None, 10)
        (await asyncio.wait_for(limits.acquire(500), 1)).release()

    asyncio.run(main())
