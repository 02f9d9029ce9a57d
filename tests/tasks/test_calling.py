"""User code never holds up the loop that serves model calls."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

import pytest

from vfnb import loops
from vfnb.errors import StageTimeout
from vfnb.tasks import call_hook


def run(function: Any, **kwargs: Any) -> Any:
    return loops.engine().run(call_hook(function, {"trace": "T", "task": "D"}, label="reward x", **kwargs))


async def _largest_gap(stop: asyncio.Event) -> float:
    largest, last = 0.0, time.monotonic()
    while not stop.is_set():
        await asyncio.sleep(0.005)
        now = time.monotonic()
        largest, last = max(largest, now - last), now
    return largest


def sync_sleep(trace: Any) -> float:
    time.sleep(1)
    return 1.0


async def async_sleep_without_await(trace: Any) -> float:
    time.sleep(1)  # noqa: ASYNC251
    return 1.0


async def async_sleep_with_await(trace: Any) -> float:
    time.sleep(0.5)  # noqa: ASYNC251
    await asyncio.sleep(0)
    time.sleep(0.5)  # noqa: ASYNC251
    return 1.0


@pytest.mark.parametrize("hook", [sync_sleep, async_sleep_without_await, async_sleep_with_await])
def test_a_sleeping_hook_does_not_block_the_engine(hook: Any) -> None:
    async def main() -> float:
        stop = asyncio.Event()
        gap = asyncio.ensure_future(_largest_gap(stop))
        assert await call_hook(hook, {"trace": None}, label="reward x") == 1.0
        stop.set()
        return await gap

    assert loops.engine().run(main()) < 0.4


def test_an_async_hook_that_never_awaits_does_not_block_other_hooks() -> None:
    async def main() -> float:
        stop = asyncio.Event()
        gap = asyncio.ensure_future(_largest_gap(stop))
        await asyncio.wrap_future(
            loops.engine().submit(call_hook(async_sleep_without_await, {"trace": None}, label="x"))
        )
        stop.set()
        return await gap

    assert loops.user().run(main()) < 0.4


def test_blocking_the_user_loop_is_reported_by_name(caplog: pytest.LogCaptureFixture) -> None:
    async def blocks(trace: Any) -> float:
        await asyncio.sleep(0)
        time.sleep(1.2)  # noqa: ASYNC251
        return 1.0

    lines: list[str] = []
    with caplog.at_level(logging.WARNING, "vfnb.tasks"):
        assert run(blocks, blocked=lines.append) == 1.0
    assert len(lines) == 1
    assert lines[0].startswith("reward x blocked the loop of all async hooks for 1.")
    assert "make it a plain `def`" in lines[0]
    assert caplog.messages == lines


def test_each_kind_of_function_runs_where_it_should() -> None:
    def plain(task: Any) -> tuple[Any, str]:
        return task, threading.current_thread().name

    async def awaits(trace: Any) -> tuple[Any, str]:
        await asyncio.sleep(0)
        return trace, threading.current_thread().name

    async def uses_the_loop() -> str:
        asyncio.get_running_loop()
        return threading.current_thread().name

    def returns_awaitable() -> Any:
        return awaits("A")

    assert run(plain) == ("D", "vfnb-worker")
    assert run(awaits) == ("T", "vfnb-hooks")
    assert run(uses_the_loop) == "vfnb-hooks"
    assert run(returns_awaitable) == ("A", "vfnb-hooks")


def test_async_iteration_and_contexts_run_on_the_user_loop() -> None:
    class Manager:
        async def __aenter__(self) -> str:
            return threading.current_thread().name

        async def __aexit__(self, *_: object) -> None:
            return None

    async def uses() -> str:
        async with Manager() as name:
            return name

    async def numbers() -> Any:
        yield threading.current_thread().name

    async def iterates() -> str:
        async for name in numbers():
            return str(name)
        return ""

    assert run(uses) == "vfnb-hooks"
    assert run(iterates) == "vfnb-hooks"


@pytest.mark.parametrize("hook", [sync_sleep, async_sleep_without_await, async_sleep_with_await])
def test_deadline_binds_whatever_the_hook_does(hook: Any) -> None:
    start = time.monotonic()
    with pytest.raises(StageTimeout, match=r"reward x took longer than 0\.1 s"):
        run(hook, timeout=0.1)
    assert time.monotonic() - start < 0.9


def test_a_timeout_of_the_hook_itself_is_its_own_error() -> None:
    async def own() -> float:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(5)
        return 1.0

    with pytest.raises(TimeoutError):
        run(own, timeout=30)


def test_errors_and_cancellation_reach_the_hook() -> None:
    ended: list[str] = []

    async def long() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("cancelled")

    async def main() -> None:
        task = asyncio.ensure_future(call_hook(long, {}, label="x"))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(100):
            if ended:
                break
            await asyncio.sleep(0.01)

    loops.engine().run(main())
    assert ended == ["cancelled"]
    with pytest.raises(ZeroDivisionError):
        run(lambda: 1 / 0)


def test_stop_iteration_of_a_hook_is_an_error_not_a_hang() -> None:
    def empty(trace: Any) -> float:
        return float(next(iter([])))

    with pytest.raises(RuntimeError, match="the function raised StopIteration"):
        run(empty, timeout=5)


def test_idle_threads_are_used_again_and_busy_ones_are_not() -> None:
    def name() -> int:
        return threading.get_ident()

    def busy() -> int:
        time.sleep(0.3)
        return threading.get_ident()

    async def main() -> tuple[set[int], set[int]]:
        one_by_one = set()
        for _ in range(5):
            one_by_one.add(await call_hook(name, {}, label="x"))
            await asyncio.sleep(0.02)
        start = time.monotonic()
        together = set(await asyncio.gather(*(call_hook(busy, {}, label="x") for _ in range(8))))
        assert time.monotonic() - start < 1.5
        return one_by_one, together

    one_by_one, together = loops.engine().run(main())
    assert len(one_by_one) < 5
    assert len(together) == 8
