"""Rollouts whose agent is a function of the session: it calls tools, no model."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import vfnb as vf

__all__ = ["PEER", "call", "free_port", "http_peer", "play", "play_all", "tool_task"]

PEER = Path(__file__).with_name("mcp_peer.py")
Act = Callable[[vf.HarnessSession], Awaitable[Any]]


def call(name: str, **arguments: Any) -> vf.ToolCall:
    """A tool call as a model makes it."""
    return vf.ToolCall(id="call_1", name=name, arguments=json.dumps(arguments))


def tool_task(*sources: Any, state: type[vf.State] = vf.State, prompt: str = "p") -> vf.Task[Any, Any, Any]:
    """A task whose rollouts have these tools; a callable is called for each rollout."""

    class ToolTask(vf.Task[vf.TaskData, state]):  # type: ignore[valid-type]
        @classmethod
        def toolsets(cls, config: vf.TaskConfig) -> list[Any]:
            return [source if isinstance(source, vf.McpServer) else source() for source in sources]

    return ToolTask(vf.TaskData(prompt=prompt))


def play(task: vf.Task[Any, Any, Any], act: Act, **settings: Any) -> vf.Trace:
    """One rollout; what `act` raises is the rollout's error."""
    return play_all([task], act, **settings)[0]


def play_all(tasks: Sequence[vf.Task[Any, Any, Any]], act: Act, **settings: Any) -> list[vf.Trace]:
    """Rollouts side by side, each with the tools of its task."""

    @vf.harness
    async def actor(session: vf.HarnessSession, task: vf.Task[Any, Any, Any]) -> None:
        await act(session)

    agent = vf.make_agent(actor, model=vf.Scripted(["done"]), **settings)

    async def main() -> list[vf.Trace]:
        return await asyncio.gather(*(agent.run(task) for task in tasks))

    return asyncio.run(main())


def free_port() -> int:
    """A port on loopback that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def http_peer(*argv: str, port: int, path: str = "/mcp") -> Iterator[str]:
    """A server in a process of its own; its URL once it listens."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, *argv], env=env, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < end, "the server did not start"
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}{path}"
    finally:
        process.kill()
        process.wait()
