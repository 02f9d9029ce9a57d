"""Counter: a tool and the scoring share the state of a rollout.

What to learn here: `vf.State`. Task and toolset name the same State class; the tool changes `self.state`, the
reward reads `trace.state`, and both are one object that belongs to this rollout alone, however many run at
once. The start value is set in `setup`. State is not stored; what a reader of the trace should see later goes
into `trace.info`.

    run = vf.evaluate("counter", model="my-model")  # harness `null` offers the tools
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import vfnb as vf

__all__ = ["CounterTaskset"]


class CounterData(vf.TaskData):
    """Where the counter begins and where it should end."""

    start: int
    target: int


class CounterState(vf.State):
    """What one rollout has done so far."""

    value: int = 0
    calls: int = 0


class CounterToolset(vf.Toolset[vf.ToolsetConfig, CounterState]):
    """Two buttons. The model sees `counter_add` and `counter_read`, with these docstrings."""

    TOOL_PREFIX = "counter"

    @vf.tool
    def add(self, amount: int) -> int:
        """Add an amount, which may be negative, to the counter and return its value."""
        self.state.calls += 1
        self.state.value += amount
        return self.state.value

    @vf.tool
    def read(self) -> int:
        """The counter's value."""
        self.state.calls += 1
        return self.state.value


class CounterTaskConfig(vf.TaskConfig):
    """Settings of each task."""

    tools: vf.ToolsetConfig = vf.ToolsetConfig()
    """Where the tools run: in this process, or as a server of its own."""


class CounterTask(vf.Task[CounterData, CounterState, CounterTaskConfig]):
    """Right if the counter stands at the target in the end."""

    @classmethod
    def toolsets(cls, config: CounterTaskConfig) -> list[Any]:
        """Tools on the task: each rollout gets its own toolset."""
        return [CounterToolset(config.tools)]

    async def setup(self, trace: vf.Trace) -> None:
        """The rollout's start value."""
        trace.state.value = self.data.start

    async def finalize(self, trace: vf.Trace) -> None:
        """Keep the end value in the stored trace."""
        trace.info["value"] = trace.state.value

    @vf.reward
    async def reached(self, trace: vf.Trace) -> float:
        """1.0 at the target."""
        return float(trace.state.value == self.data.target)

    @vf.metric
    async def tool_calls(self, trace: vf.Trace) -> float:
        """Calls of the tools."""
        return float(trace.state.calls)


class CounterConfig(vf.TasksetConfig):
    """Settings of the loading."""

    num_tasks: int = 20
    """How many tasks."""
    task: CounterTaskConfig = CounterTaskConfig()
    """Settings of each task."""


class CounterTaskset(vf.Taskset[CounterTask, CounterConfig]):
    """Counters to bring from a start to a target."""

    def load(self) -> Iterator[CounterTask]:
        """Builds each task when it is asked for."""
        for i in range(self.config.num_tasks):
            start, target = i, 3 * i + 2
            prompt = f"Read the counter, then bring it to {target} with the tools."
            yield CounterTask(CounterData(prompt=prompt, start=start, target=target), self.config.task)
