"""A running source of tools, and the simplest one: a toolset in this process."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, ClassVar

from pydantic import ValidationError

from vfnb.errors import ConfigError, HookError, StageTimeout, StateConflict, ToolError, ToolServerError
from vfnb.tasks.calling import call_hook
from vfnb.tasks.state import State
from vfnb.tasks.tools.binding import Binding, bound
from vfnb.tasks.tools.registry import RegisteredTool, Registry
from vfnb.tasks.tools.results import ToolResult, failed, result_of
from vfnb.tasks.tools.schema import problem, values
from vfnb.tasks.tools.toolset import Toolset, lifecycle
from vfnb.types import Tool

__all__ = ["LocalSource", "Source", "starting"]


class Source(ABC):
    """Tools behind one name. Everything runs on the loop of hooks."""

    REMOTE: ClassVar[bool] = False

    def __init__(self, name: str, prefix: str, startup: float | None) -> None:
        self.name = name
        self.prefix = prefix
        self.startup = startup
        self.tools: list[Tool] = []
        """What is offered, under the names that the server itself uses."""

    @abstractmethod
    async def open(self, binding: Binding | None) -> None:
        """Start, within the startup limit.

        Args:
            binding: the rollout it belongs to, None if it is shared.

        Raises:
            ToolServerError: it does not start.
        """

    @abstractmethod
    async def call(self, name: str, arguments: Mapping[str, Any], binding: Binding) -> ToolResult:
        """Call a tool, within its limit. What the tool does wrong is a result with `is_error`.

        Raises:
            ToolServerError: the server is gone.
            StateConflict: a change of the state cannot be taken over.
        """

    @abstractmethod
    async def close(self) -> None:
        """End it; safe to repeat, and without `open`."""


class LocalSource(Source):
    """A toolset whose methods are called directly."""

    def __init__(self, toolset: Toolset[Any, Any]) -> None:
        super().__init__(toolset.name, toolset.TOOL_PREFIX, toolset.config.timeout.startup)
        self.toolset = toolset
        self.label = type(toolset).__name__
        self.stateful = toolset.state_type() is not State
        self._registry = Registry(toolset.name)
        self._opened = False

    async def open(self, binding: Binding | None) -> None:
        self._opened = True
        limit = self.startup
        log = binding.log if binding is not None else None
        with bound(binding):
            async with starting(self.label, limit):
                await self._step("setup", {}, log)
                if binding is not None:
                    await self._step("setup_task", {"task": binding.task}, log)
                self._registry = self.toolset.registry()
        self.tools = [item.tool for item in self._registry]

    async def _step(self, name: str, given: Mapping[str, Any], log: Callable[[str], object] | None) -> None:
        method = lifecycle(self.toolset, name)
        if method is not None:
            await call_hook(method, given, label=f"{self.label}.{name}", log=log)

    async def call(self, name: str, arguments: Mapping[str, Any], binding: Binding) -> ToolResult:
        item = self._registry[name]
        try:
            checked = values(item.model, arguments)
        except ValidationError as error:
            return failed(f"arguments of {name}: {problem(error)}")
        turn: AbstractAsyncContextManager[Any] = binding.lock if self.stateful else nullcontext()
        async with turn:
            return await self._run(item, checked, binding)

    async def _run(self, item: RegisteredTool, arguments: dict[str, Any], binding: Binding) -> ToolResult:
        config = self.toolset.config
        limit = item.timeout if item.timeout is not None else config.timeout.call
        label = f"tool {item.name}"
        with bound(binding):
            try:
                value = await call_hook(
                    item.function, arguments, label=label, timeout=limit, log=binding.log, blocked=binding.log
                )
                return result_of(value).within(config.result_limit, item.name)
            except StageTimeout:
                return failed(f"{label} did not answer within {limit:g} s")
            except (ToolServerError, StateConflict):
                raise
            except ToolError as error:
                return failed(str(error))
            except Exception as error:
                if binding.log is not None:
                    binding.log(f"{label} raised {error!r}")
                return failed(f"{label} raised {type(error).__name__}: {error}")

    async def close(self) -> None:
        if not self._opened:
            return
        self._opened = False
        await self._step("teardown", {}, None)


class starting:  # noqa: N801 - used as a function
    """Bound a start, and name the server in whatever goes wrong with it."""

    def __init__(self, label: str, limit: float | None) -> None:
        self._label, self._limit = label, limit
        self._clock = asyncio.timeout(limit)

    async def __aenter__(self) -> None:
        await self._clock.__aenter__()

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            await self._clock.__aexit__(kind, error, trace)
        except TimeoutError as late:
            if self._clock.expired():
                raise ToolServerError(
                    f"{self._label} was not ready within {self._limit:g} s; make setup() faster or raise "
                    "timeout.startup in its config"
                ) from late
            raise
        if isinstance(error, Exception) and not isinstance(error, ToolServerError | HookError | ConfigError):
            raise ToolServerError(f"{self._label} did not start: {type(error).__name__}: {error}") from error
