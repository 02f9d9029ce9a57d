"""A vLLM server of ours under test: what it leaves behind, and how the tokens of its calls follow each other."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import vfnb as vf
from vfnb.clients.engines import TokenSampling
from vfnb.runtimes import strays

__all__ = ["calls_of", "cancelling", "lines_hold", "running", "shared"]


def shared() -> set[Path]:
    """Shared memory of the machine."""
    return set(Path("/dev/shm").iterdir())


@contextmanager
def running(engine: vf.VLLM) -> Iterator[vf.VLLM]:
    """Start a server and stop it: several processes then, nothing of them and of their memory afterwards."""
    shm = shared()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    engine.check()
    said: list[str] = []
    asyncio.run(engine.start(said.append))
    pid = engine.pid
    assert pid is not None and len(set(said)) > 3
    assert len(strays.find_processes("VFNB_OWNER=", [pid])) >= 3
    yield engine
    begin = time.monotonic()
    engine.stop()
    assert time.monotonic() - begin < 25
    assert engine.pid is None
    assert not strays.find_processes("VFNB_OWNER=", [pid])
    assert shared() - shm == set()


def calls_of(trace: vf.Trace) -> list[tuple[list[int], list[int]]]:
    """Prompt and completion of each call, in tokens."""
    found = []
    for call in trace.calls:
        assert call.reply_node is not None
        branch = next(b for b in trace.branches if call.reply_node in b.path)
        node = trace.dag.nodes[call.reply_node]
        begin = node.total - (node.end - node.start) + node.lead
        ids = branch.token_ids.tolist()
        found.append((ids[:begin], ids[begin : node.total]))
    return found


def lines_hold(trace: vf.Trace) -> None:
    """Each prompt begins with the prompt and the completion before it, or the fork says why it does not."""
    calls = calls_of(trace)
    causes = {branch.id: branch.cause for branch in trace.branches}
    for (prompt, completion), (following, _), call in zip(calls, calls[1:], trace.calls[1:], strict=False):
        known = prompt + completion
        if following[: len(known)] != known:
            node = trace.dag.nodes[call.reply_node or 0]
            cause = causes[node.branch]
            assert cause is not None and cause.cause == "retokenized", cause
            assert cause.position == next(
                i for i, (a, b) in enumerate(zip(known, following, strict=False)) if a != b
            )


def cancelling(engine: vf.VLLM, length: int) -> tuple[float, int]:
    """Cancel as many long calls as it takes at a time: seconds until another one is answered, and its tokens."""

    async def start() -> tuple[float, int]:
        endless = TokenSampling(max_tokens=length, extra={"ignore_eos": True})
        tasks = [asyncio.create_task(engine.generate([5, 6, 7], endless)) for _ in range(32)]
        await asyncio.sleep(2)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        begin = time.monotonic()
        made = await engine.generate([5, 6, 7], TokenSampling(max_tokens=4))
        return time.monotonic() - begin, len(made.token_ids)

    return asyncio.run(start())
