"""Tools behind an MCP connection: a program on stdio, or a streamable-HTTP server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, nullcontext
from typing import Any, ClassVar

from vfnb.clients.address import resolve_headers
from vfnb.errors import ConfigError
from vfnb.runtimes.environ import scrubbed
from vfnb.tasks.tools.binding import Binding, merge, snapshot
from vfnb.tasks.tools.connection import Address, Connection
from vfnb.tasks.tools.foreign import McpServer
from vfnb.tasks.tools.results import ToolResult, failed
from vfnb.tasks.tools.source import Source, starting
from vfnb.types import Tool
from vfnb.utils.config import nearest

__all__ = ["STATE_KEY", "RemoteSource", "foreign_source"]

STATE_KEY = "vfnb/state"
"""Under `_meta` of a call and of its result: the rollout's state, and the fields that the tool changed."""

MakeAddress = Callable[[Binding | None, ExitStack], Address]


class RemoteSource(Source):
    """An MCP client. A shared one connects anew, once per call, when its server was lost.

    Args:
        address: gives the address at each connect; what it puts into the stack goes with the connection.
        startup, call: limits in seconds.
        only: names of the tools to offer; None offers all.
        stateful: send the rollout's state along, and take over its changes.
    """

    REMOTE: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        prefix: str,
        address: MakeAddress,
        *,
        startup: float | None,
        call: float | None,
        result_limit: int,
        only: list[str] | None = None,
        stateful: bool = False,
    ) -> None:
        super().__init__(name, prefix, startup)
        self._address = address
        self._limit = call
        self._result_limit = result_limit
        self._only = only
        self._stateful = stateful
        self._shared = False
        self._closed = False
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()

    async def open(self, binding: Binding | None) -> None:
        self._shared = binding is None
        connection = await self._connect(binding)
        changed = connection.meta.get(STATE_KEY)
        if changed and binding is not None and self._stateful:
            merge(binding.holder.state, snapshot(binding.holder.state), changed)

    async def _connect(self, binding: Binding | None) -> Connection:
        from vfnb.tasks.tools.convert import tool_from_mcp

        files = ExitStack()
        label = f"tool server {self.name}"
        connection = Connection(label, self._address(binding, files), files)
        try:
            async with starting(label, self.startup):
                await connection.open()
                self.tools = self._chosen([tool_from_mcp(tool) for tool in connection.listed])
        except BaseException:
            await connection.close()
            raise
        self._connection = connection
        return connection

    def _chosen(self, found: list[Tool]) -> list[Tool]:
        if self._only is None:
            return found
        known = {tool.name: tool for tool in found}
        for name in self._only:
            if name not in known:
                match = nearest(name, known)
                hint = f"did you mean {match!r}?" if match else f"it has {', '.join(known) or 'none'}"
                raise ConfigError(f"server {self.name} has no tool {name!r}; {hint}")
        return [known[name] for name in self._only]

    async def call(self, name: str, arguments: Mapping[str, Any], binding: Binding) -> ToolResult:
        turn: AbstractAsyncContextManager[Any] = binding.lock if self._stateful else nullcontext()
        async with turn:
            before = snapshot(binding.holder.state) if self._stateful else None
            meta = {STATE_KEY: before} if before is not None else None
            try:
                async with asyncio.timeout(self._limit) as clock:
                    connection = await self._alive()
                    result = await connection.call(name, arguments, meta)
            except TimeoutError:
                if not clock.expired():
                    raise
                return failed(f"tool {name} did not answer within {self._limit:g} s")
            changed = (result.meta or {}).get(STATE_KEY)
            if before is not None and changed:
                merge(binding.holder.state, before, changed)
        from vfnb.tasks.tools.convert import from_mcp

        return from_mcp(result).within(self._result_limit, name)

    async def _alive(self) -> Connection:
        """The connection; a new one if the server of several rollouts was lost. A rollout's own is not replaced:
        what it had in memory would be gone."""
        assert self._connection is not None
        if not self._shared or not self._connection.lost:
            return self._connection
        async with self._connecting:
            if self._connection.lost and not self._closed:
                await self._connection.close()
                return await self._connect(None)
            return self._connection

    async def close(self) -> None:
        self._closed = True
        if self._connection is not None:
            await self._connection.close()


def foreign_source(server: McpServer) -> RemoteSource:
    """The source that a server's settings mean."""

    def address(binding: Binding | None, files: ExitStack) -> Address:
        if server.url is not None:
            return Address(url=server.url, headers=resolve_headers(server.headers))
        env = scrubbed(os.environ) | resolve_headers(server.env)
        return Address(command=tuple(server.command), env=env, cwd=server.cwd)

    return RemoteSource(
        server.label,
        server.prefix,
        address,
        startup=server.timeout.startup,
        call=server.timeout.call,
        result_limit=server.result_limit,
        only=server.tools,
    )
