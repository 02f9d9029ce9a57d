"""The tools of one rollout: its own sources and the shared ones, called directly or over HTTP."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vfnb import loops
from vfnb.errors import StateConflict, ToolServerError
from vfnb.tasks.tools.binding import Binding
from vfnb.tasks.tools.plan import claim
from vfnb.tasks.tools.results import ToolResult, failed
from vfnb.tasks.tools.source import Source
from vfnb.types import Tool, ToolCall, ToolMessage
from vfnb.utils.config import nearest

if TYPE_CHECKING:
    from vfnb.tasks.tools.port import ToolPort

__all__ = ["RolloutTools"]

FINISH_S = 2.0  # longest wait for cancelled calls


class RolloutTools:
    """What a rollout's agent can call. Methods may be awaited from any loop."""

    def __init__(
        self,
        own: Sequence[Source],
        shared: Sequence[Source],
        binding: Binding,
        *,
        port: Callable[[], ToolPort] | None = None,
        fault: Callable[[Exception], object] | None = None,
    ) -> None:
        self.binding = binding
        self.tools: list[Tool] = []
        """What is offered, under the names `prefix_name`."""
        self._own, self._shared = list(own), list(shared)
        self._table: dict[str, tuple[Source, str]] = {}
        self._port = port
        self._fault = fault
        self._key = ""
        self._urls: dict[str, str] | None = None
        self._over = False
        self._running: set[asyncio.Future[ToolResult]] = set()

    async def open(self) -> None:
        """Start the sources of this rollout and learn all tools. On the loop of hooks.

        Raises:
            ToolServerError: a source does not start.
            ConfigError: two tools have one name.
        """
        for source in self._own:
            await source.open(self.binding)
        owners: dict[str, str] = {}
        for source in [*self._shared, *self._own]:
            names = claim(owners, source.name, source.prefix, [tool.name for tool in source.tools])
            for name, tool in zip(names, source.tools, strict=True):
                self._table[name] = (source, tool.name)
                self.tools.append(tool.model_copy(update={"name": name}))

    async def call(self, call: ToolCall) -> ToolMessage:
        """Answer one call of the model. What goes wrong with the tool is a message with `is_error`.

        Raises:
            ToolServerError: the tool's server is gone; the rollout cannot go on.
            StateConflict: a change of the state could not be taken over.
        """
        result = await loops.hooks().do(self._call(call))
        return result.message(call.id)

    async def _call(self, call: ToolCall) -> ToolResult:
        if call.name not in self._table:
            match = nearest(call.name, self._table)
            hint = (
                f"did you mean {match!r}?"
                if match
                else f"the tools are {', '.join(sorted(self._table)) or 'none'}"
            )
            return failed(f"there is no tool {call.name!r}; {hint}")
        arguments = _arguments(call.arguments)
        if isinstance(arguments, str):
            return failed(f"arguments of {call.name}: {arguments}")
        source, name = self._table[call.name]
        return await self._ask(source, name, arguments)

    async def answer(self, source: Source, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Answer a call that came over HTTP: what ends the rollout is told to the program too."""
        if name not in {tool.name for tool in source.tools}:
            return failed(f"there is no tool {name!r}")
        try:
            return await self._ask(source, name, arguments)
        except (ToolServerError, StateConflict) as error:
            return failed(str(error))

    async def _ask(self, source: Source, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        over = failed(f"tool {name}: the rollout is over")
        if self._over:
            return over
        work = asyncio.ensure_future(source.call(name, arguments, self.binding))
        self._running.add(work)
        try:
            await asyncio.wait({work})
            return over if work.cancelled() else work.result()
        except (ToolServerError, StateConflict) as error:
            if self._fault is not None:
                self._fault(error)
            raise
        finally:
            self._running.discard(work)
            work.cancel()

    @property
    def served(self) -> dict[str, tuple[str, str]]:
        """For each tool the name of its server in `serve`, and its own name there."""
        servers = {id(source): name for name, source in _named([*self._shared, *self._own]).items()}
        return {name: (servers[id(source)], own) for name, (source, own) in self._table.items()}

    async def serve(self) -> dict[str, str]:
        """Open a path for each source on the run's tool server: server name to streamable-HTTP URL.

        Raises:
            MissingExtra: the mcp SDK is not installed.
        """
        return await loops.hooks().do(self._serve())

    async def _serve(self) -> dict[str, str]:
        sources = _named([*self._shared, *self._own])
        if self._urls is None and self._port is not None and sources and not self._over:
            port = self._port()
            await port.open()
            self._key = secrets.token_urlsafe(24)
            self._urls = port.admit(self._key, self, sources)
        return dict(self._urls or {})

    async def finish(self) -> None:
        """The agent is done: revoke the key and end the calls under way, so that scoring finds a state at rest."""
        await loops.hooks().do(self._finish())

    async def _finish(self) -> None:
        self._over = True
        if self._key and self._port is not None:
            self._port().revoke(self._key)
            self._key = ""
        running = set(self._running)
        for work in running:
            work.cancel()
        if running:
            await asyncio.wait(running, timeout=FINISH_S)

    async def close(self) -> None:
        """`finish`, and end the sources of this rollout."""
        await loops.hooks().do(self._close())

    async def _close(self) -> None:
        await self._finish()
        ended = await asyncio.gather(*(source.close() for source in self._own), return_exceptions=True)
        for problem in ended:
            if isinstance(problem, BaseException):
                raise problem


def _named(sources: Sequence[Source]) -> dict[str, Source]:
    """Sources by a name of their own: `search`, and `search_2` for a second one."""
    found: dict[str, Source] = {}
    for source in sources:
        name, n = source.name, 1
        while name in found:
            n += 1
            name = f"{source.name}_{n}"
        found[name] = source
    return found


def _arguments(text: str) -> dict[str, Any] | str:
    """The arguments, or what is wrong with them."""
    try:
        value = json.loads(text) if text.strip() else {}
    except ValueError as error:
        return f"not valid JSON ({error})"
    return value if isinstance(value, dict) else f"expected a JSON object, got {type(value).__name__}"
