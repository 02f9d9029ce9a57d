"""A toolset of ours in a process of its own: a rollout that stays open while it is measured.

    python -m benchmarks.ours.tools

Prints one JSON line with the toolset's URL. A line with a number asks for that many direct calls; the answer has
their CPU time in ms each.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import vfnb as vf


class SumState(vf.State):
    calls: int = 0


class Sums(vf.Toolset[vf.SharedToolsetConfig, SumState]):
    @vf.tool
    def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        self.state.calls += 1
        return a + b


class SumTask(vf.Task[vf.TaskData, SumState]):
    """Has the state that the toolset writes."""


class SumTaskset(vf.Taskset[SumTask, vf.TasksetConfig]):
    @classmethod
    def toolsets(cls, config: vf.TasksetConfig) -> list[vf.Toolset[Any, Any]]:
        return [Sums()]

    def load(self) -> list[SumTask]:
        return [SumTask(vf.TaskData(prompt="serve"))]


@vf.harness
async def serve(session: vf.HarnessSession, task: vf.Task[Any, Any, Any]) -> None:
    print(json.dumps({"url": session.mcp_servers["sums"]}), flush=True)
    call = vf.ToolCall(id="1", name="add", arguments='{"a": 1, "b": 2}')
    while line := await asyncio.to_thread(sys.stdin.readline):
        start = time.process_time()
        for _ in range(int(line)):
            answer = await session.call_tool(call)
            assert answer.text == "3"
        print(json.dumps({"cpu_ms": 1000 * (time.process_time() - start) / int(line)}), flush=True)


def main() -> None:
    agent = vf.make_agent(serve, model=vf.Scripted(["none"]))
    (task,) = SumTaskset()
    asyncio.run(agent.run(task))


if __name__ == "__main__":
    main()
