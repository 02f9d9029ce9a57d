"""Tool calls, directly and over HTTP; the floor is a server of the plain mcp SDK with the same transport settings.

    python -m benchmarks --rows tools

`default_*` are the SDK's own defaults, with sessions and event streams, for comparison.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from mcp import Client

from benchmarks.measure import Figures, Metric, Row, Sides
from benchmarks.processes import Helper, cpu_s, helper, python

__all__ = ["ROWS"]

CALLS = 300
PARALLEL = 32
RATIO = 1.3  # the most that a call may cost over the floor


async def calls(url: str, pid: int) -> Figures:
    """CPU of the server and time per call, one at a time and several at a time, in ms."""
    async with Client(url) as client:

        async def one() -> float:
            start = time.perf_counter()
            answer = await client.call_tool("add", {"a": 1, "b": 2})
            assert answer.content[0].text == "3"
            return 1000 * (time.perf_counter() - start)

        for _ in range(20):
            await one()
        before = cpu_s(pid)
        times = [await one() for _ in range(CALLS)]
        alone = cpu_s(pid) - before

        async def several() -> None:
            for _ in range(CALLS // PARALLEL):
                await one()

        before = cpu_s(pid)
        await asyncio.gather(*(several() for _ in range(PARALLEL)))
        many = cpu_s(pid) - before
    return {
        "cpu_1": 1000 * alone / CALLS,
        f"cpu_{PARALLEL}": 1000 * many / (CALLS // PARALLEL * PARALLEL),
        "p50": statistics.median(times),
    }


def measured(
    server: Helper, *, other: Helper | None = None, floor: dict[str, float] | None = None
) -> Figures:
    """One side; ours also gets its direct calls and its ratio to the floor's last figures."""
    figures = asyncio.run(calls(server.ready["url"], server.pid))
    if other is not None:
        default = asyncio.run(calls(other.ready["url"], other.pid))
        figures |= {"default_cpu": default["cpu_1"], "default_p50": default["p50"]}
        assert floor is not None
        floor.clear()
        floor |= figures
        return figures
    assert floor is not None
    figures |= {f"x_{key}": figures[key] / floor[key] for key in ("cpu_1", f"cpu_{PARALLEL}", "p50")}
    return figures | {"direct": server.ask("500")["cpu_ms"]}


@contextmanager
def opened(peer: bool) -> Iterator[Sides]:
    """The floor runs first in each round, so that ours is set against figures of the same moment."""
    with (
        helper(python("net.mcp_bare")) as bare,
        helper([*python("net.mcp_bare"), "plain"]) as default,
        helper(python("ours.tools")) as ours,
    ):
        floor: dict[str, float] = {}
        yield {
            "floor": partial(measured, bare, other=default, floor=floor),
            "ours": partial(measured, ours, floor=floor),
        }


ROWS = [
    Row(
        "tools",
        "tool calls; floor: the plain SDK's server",
        [
            Metric("direct", "CPU, direct call", "ms", 3.0),
            Metric("cpu_1", "CPU over HTTP, 1 at a time", "ms"),
            Metric(f"cpu_{PARALLEL}", f"CPU over HTTP, {PARALLEL} at a time", "ms"),
            Metric("p50", "p50 over HTTP", "ms"),
            Metric("x_cpu_1", "CPU over the floor, 1 at a time", "x", RATIO),
            Metric(f"x_cpu_{PARALLEL}", f"CPU over the floor, {PARALLEL} at a time", "x", RATIO),
            Metric("x_p50", "p50 over the floor", "x", RATIO),
            Metric("default_cpu", "CPU with the SDK's defaults", "ms"),
            Metric("default_p50", "p50 with the SDK's defaults", "ms"),
        ],
        opened,
        runs=5,
    )
]
