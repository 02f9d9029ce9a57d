"""The counter of the documentation, as a module that can be launched."""

import os
import time
from pathlib import Path

import vfnb as vf


class CounterState(vf.State):
    calls: int = 0
    note: str = ""
    seen: list[str] = []


class CounterToolset(vf.Toolset[vf.ToolsetConfig, CounterState]):
    async def setup(self) -> None:
        print("on standard output, which must not disturb the protocol")
        self.ready = True

    async def setup_task(self, task: vf.TaskData) -> None:
        self.prompt = task.prompt_text
        self.state.note = f"made for {task.prompt_text}"

    @vf.tool
    def count(self) -> int:
        """Count this tool call and return the total."""
        self.state.calls += 1
        return self.state.calls

    @vf.tool
    def process(self) -> int:
        """Process id of the server."""
        return os.getpid()

    @vf.tool
    def where(self) -> str:
        """Working folder of the server."""
        return str(Path.cwd())

    @vf.tool
    def remember(self, word: str) -> list[str]:
        """Keep a word."""
        print("remembering", word)
        self.state.seen = [*self.state.seen, word]
        return self.state.seen

    @vf.tool
    def slow(self, seconds: float) -> int:
        """Count after a while."""
        self.state.calls += 1
        time.sleep(seconds)
        return self.state.calls

    @vf.tool
    def die(self) -> None:
        """End the server."""
        os._exit(7)


class CounterTaskConfig(vf.TaskConfig):
    tools: vf.ToolsetConfig = vf.ToolsetConfig()


class CounterTask(vf.Task[vf.TaskData, CounterState, CounterTaskConfig]):
    @classmethod
    def toolsets(cls, config: CounterTaskConfig) -> list[vf.Toolset]:
        return [CounterToolset(config.tools)]

    @vf.metric
    async def tool_calls(self, trace: vf.Trace) -> float:
        return float(trace.state.calls)


class SharedCounterToolset(vf.Toolset[vf.SharedToolsetConfig, CounterState]):
    @vf.tool
    def count(self) -> int:
        """Count this tool call and return the total."""
        self.state.calls += 1
        return self.state.calls

    @vf.tool
    def process(self) -> int:
        """Process id of the server."""
        return os.getpid()


if __name__ == "__main__":
    CounterToolset.run()
