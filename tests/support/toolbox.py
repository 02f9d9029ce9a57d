"""A task with tools, for harnesses that offer them."""

from __future__ import annotations

import asyncio

import vfnb as vf

__all__ = ["Desk", "DeskTask", "Plain", "desk"]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class DeskState(vf.State):
    sums: int = 0


class Desk(vf.Toolset[vf.ToolsetConfig, DeskState]):
    TOOL_PREFIX = "desk"

    @vf.tool
    def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        self.state.sums += 1
        return a + b

    @vf.tool
    def fail(self) -> str:
        """Raise."""
        raise ValueError("the desk is on fire")

    @vf.tool
    def recite(self, length: int) -> str:
        """A long text."""
        return "la" * (length // 2)

    @vf.tool
    def draw(self) -> vf.ImageUrlContentPart:
        """A picture."""
        return vf.ImageUrlContentPart(image_url=vf.ImageUrlSource(url=f"data:image/png;base64,{PIXEL}"))


class Plain(vf.Toolset[vf.ToolsetConfig]):
    @vf.tool(timeout=1)
    async def wait(self) -> str:
        """Never ends."""
        await asyncio.sleep(60)
        return "late"

    @vf.tool
    async def meet(self, name: str, other: str) -> str:
        """Come back when the other one is there too."""
        _there.add(name)
        for _ in range(400):
            if other in _there:
                return name
            await asyncio.sleep(0.02)
        return "alone"


_there: set[str] = set()


class DeskTask(vf.Task[vf.TaskData, DeskState]):
    @classmethod
    def toolsets(cls, config: vf.TaskConfig) -> list[vf.Toolset]:
        _there.clear()
        return [Desk(), Plain()]

    @vf.reward
    def added(self, trace: vf.Trace) -> float:
        return float(trace.state.sums)


def desk() -> DeskTask:
    """The task."""
    return DeskTask(vf.TaskData(idx=0, prompt="Use the desk."))
