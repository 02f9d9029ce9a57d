"""Calling user code: by parameter name, off the engine loop, with a deadline, its prints caught."""

from __future__ import annotations

import asyncio
import dis
import functools
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from types import CodeType, coroutine
from typing import Any

from vfnb import loops
from vfnb.errors import StageTimeout
from vfnb.utils.prints import printing_to

__all__ = ["BLOCKED_S", "call_hook", "call_plain", "is_plain", "parameters_of"]

BLOCKED_S = 1.0
"""An async hook that keeps the loop of hooks for longer than this without awaiting is reported."""

_log = logging.getLogger("vfnb.tasks")
_LOOP_NAMES = {
    "asyncio",
    "anyio",
    "create_task",
    "ensure_future",
    "get_event_loop",
    "get_running_loop",
    "sniffio",
}


async def call_hook(
    function: Callable[..., Any],
    values: Mapping[str, Any],
    *,
    label: str,
    timeout: float | None = None,
    log: Callable[[str], object] | None = None,
    blocked: Callable[[str], object] | None = None,
) -> Any:
    """Call a function with those of `values` that its parameters name, and return what it returns.

    A sync function, and an async one that never awaits, runs in a thread of its own; any other async one on
    the loop of hooks. Neither can hold up the caller's loop or an agent.

    Args:
        label: the function's name in messages, for example `reward exact_match`.
        timeout: seconds; a thread that runs over is left behind, a coroutine is cancelled.
        log: takes what the function prints; None leaves it on the standard output.
        blocked: takes a line for each time the function blocked that loop.

    Raises:
        StageTimeout: it took longer than `timeout`.
        Exception: whatever the function raises.
    """
    given = {name: values[name] for name in parameters_of(function) if name in values}
    bound = functools.partial(function, **given)
    with printing_to(log):
        try:
            async with asyncio.timeout(timeout) as clock:
                if not inspect.iscoroutinefunction(function):
                    result = await loops.on_worker(bound)
                elif _never_awaits(function.__code__ if hasattr(function, "__code__") else None):
                    return await loops.on_worker(lambda: _drive(bound()))
                else:
                    result = bound()
                if inspect.isawaitable(result):
                    result = await loops.hooks().do(_watched(result, label, blocked))
                return result
        except TimeoutError as error:
            if not clock.expired():
                raise
            raise StageTimeout(
                f"{label} took longer than {timeout:g} s; make it faster or raise its limit"
            ) from error


def is_plain(function: Callable[..., Any]) -> bool:
    """Whether any thread can run a function from beginning to end: it is sync, or async without an await."""
    return not inspect.iscoroutinefunction(function) or _never_awaits(getattr(function, "__code__", None))


def call_plain(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call a plain function with those of `values` that its parameters name, in this thread."""
    result = function(**{name: values[name] for name in parameters_of(function) if name in values})
    if not inspect.isawaitable(result):
        return result
    return _drive(result) if inspect.iscoroutinefunction(function) else loops.hooks().run(_plain(result))


async def _plain(work: Awaitable[Any]) -> Any:
    return await work


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names that a function can be given, without a bound `self`."""
    plain = getattr(function, "__func__", function)
    try:
        names = _signature_names(plain)
    except TypeError:  # not hashable
        names = tuple(inspect.signature(plain).parameters)
    return names[1:] if inspect.ismethod(function) else names


@functools.lru_cache(maxsize=4096)
def _signature_names(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


@functools.lru_cache(maxsize=4096)
def _never_awaits(code: CodeType | None) -> bool:
    """Whether an async function runs to its end in one step, so that any thread can run it.

    Every await, `async for` and `async with` compiles to a SEND instruction (CPython 3.11 and later).
    """
    if code is None or _LOOP_NAMES.intersection(code.co_names):
        return False
    return not any(step.opname == "SEND" for step in dis.get_instructions(code))


def _drive(work: Any) -> Any:
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    work.close()
    raise RuntimeError(f"{work.__qualname__} was taken for a function that never awaits")


async def _watched(work: Awaitable[Any], label: str, blocked: Callable[[str], object] | None) -> Any:
    def report(seconds: float) -> None:
        line = (
            f"{label} blocked the loop of all async hooks for {seconds:.1f} s; "
            "make it a plain `def`, or await instead of blocking"
        )
        _log.warning(line)
        if blocked is not None:
            blocked(line)

    return await _timed_steps(work, report)


@coroutine
def _timed_steps(work: Awaitable[Any], report: Callable[[float], None]) -> Generator[Any, Any, Any]:
    """Await, with a clock around each step between two suspensions."""
    steps: Any = work.__await__()
    value: Any = None
    error: BaseException | None = None
    while True:
        start = time.monotonic()
        try:
            waits_for = steps.throw(error) if error is not None else steps.send(value)
        except StopIteration as end:
            return end.value
        finally:
            took = time.monotonic() - start
            if took > BLOCKED_S:
                report(took)
        value, error = None, None
        try:
            value = yield waits_for
        except GeneratorExit:
            steps.close()
            raise
        except BaseException as raised:
            error = raised
