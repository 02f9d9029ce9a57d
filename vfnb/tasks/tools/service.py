"""The tool servers of a run: shared ones started once, a rollout's own with it, one HTTP port for all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from vfnb import loops
from vfnb.errors import ToolServerError
from vfnb.tasks.tools.binding import Binding
from vfnb.tasks.tools.plan import own_tools, shared_tools, source_of
from vfnb.tasks.tools.rollout import RolloutTools
from vfnb.tasks.tools.source import Source

if TYPE_CHECKING:
    from vfnb.tasks.task import Task
    from vfnb.tasks.tools.port import ToolPort
    from vfnb.trace import Trace

__all__ = ["ToolService"]

CLOSE_S = 10.0


class ToolService:
    """One per run. Its methods may be awaited from any loop; everything happens on the loop of hooks."""

    def __init__(self) -> None:
        self._shared: dict[int, asyncio.Task[list[Source]]] = {}
        self._configs: list[Any] = []  # keeps them alive, so that their ids stay unique
        self._port: ToolPort | None = None
        self._opening: set[asyncio.Task[Any]] = set()

    async def open(
        self,
        task: Task[Any, Any, Any],
        trace: Trace,
        *,
        log: Callable[[str], object] | None = None,
        fault: Callable[[Exception], object] | None = None,
    ) -> RolloutTools | None:
        """Start what a rollout needs; None if its task has no tools.

        Args:
            trace: its state is the tools' `self.state`.
            log: takes what tools print.
            fault: called, on the loop of hooks, with what makes it pointless for the rollout to go on.

        Raises:
            ToolServerError: a server does not start, or not in time.
            ConfigError: two tools have one name, or a filter names a tool that is not there.
        """
        if not task.has_tools():
            return None
        return await loops.hooks().do(self._open(task, trace, log, fault))

    async def _open(
        self,
        task: Task[Any, Any, Any],
        trace: Trace,
        log: Callable[[str], object] | None,
        fault: Callable[[Exception], object] | None,
    ) -> RolloutTools:
        this = asyncio.current_task()
        assert this is not None
        self._opening.add(this)
        try:
            tools = RolloutTools(
                [source_of(item) for item in own_tools(task)],
                await self._shared_of(task),
                Binding(trace, task=task.data, log=log),
                port=self._the_port,
                fault=fault,
            )
            try:
                await tools.open()
            except BaseException:
                await asyncio.shield(tools.close())
                raise
            return tools
        finally:
            self._opening.discard(this)

    async def _shared_of(self, task: Task[Any, Any, Any]) -> list[Source]:
        """The shared sources of the taskset; the first rollout starts them, the others wait for it."""
        taskset = task.taskset
        if taskset is None:
            return []
        key = id(taskset.config)  # views of a taskset share its config, and its servers
        if key not in self._shared:
            self._configs.append(taskset.config)
            sources = [source_of(item) for item in shared_tools(task)]
            self._shared[key] = asyncio.create_task(_start(sources))
        return await asyncio.shield(self._shared[key])

    def _the_port(self) -> ToolPort:
        if self._port is None:
            from vfnb.tasks.tools.port import ToolPort

            self._port = ToolPort()
        return self._port

    async def close(self) -> None:
        """End the shared servers and the port, and wait for what a cancelled start leaves."""
        if self._shared or self._opening or self._port is not None:
            await loops.hooks().do(self._close())

    async def _close(self) -> None:
        if self._opening:
            await asyncio.wait(set(self._opening), timeout=CLOSE_S)
        starts, self._shared = list(self._shared.values()), {}
        for start in starts:
            if not start.done():
                start.cancel()
        found = await asyncio.gather(*starts, return_exceptions=True)
        sources = [source for item in found if isinstance(item, list) for source in item]
        await asyncio.gather(*(source.close() for source in sources), return_exceptions=True)
        if self._port is not None:
            await self._port.close()
            self._port = None


async def _start(sources: list[Source]) -> list[Source]:
    try:
        for source in sources:
            await source.open(None)
    except BaseException as error:
        await asyncio.gather(*(source.close() for source in sources), return_exceptions=True)
        if isinstance(error, ToolServerError):
            error.retryable = False  # type: ignore[misc]  # the failed start is kept; a second try would get it again
        raise
    return sources
