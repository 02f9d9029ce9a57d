"""Tools behind an MCP connection: a program on stdio, or a streamable-HTTP server."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import IO, Any, ClassVar

from vfnb.clients.address import public_url, resolve_headers
from vfnb.errors import ConfigError, StateConflict, ToolServerError
from vfnb.runtimes.environ import scrubbed
from vfnb.tasks.tools.binding import Binding, merge, snapshot
from vfnb.tasks.tools.foreign import McpServer
from vfnb.tasks.tools.results import ToolResult, failed
from vfnb.tasks.tools.sdk import sdk
from vfnb.tasks.tools.source import Source, starting
from vfnb.types import Tool
from vfnb.utils.config import nearest

__all__ = ["STATE_KEY", "Address", "RemoteSource", "foreign_source"]

STATE_KEY = "vfnb/state"
"""Under `_meta` of a call and of its result: the rollout's state, and the fields that the tool changed."""
CLOSE_S = 8.0  # the SDK ends a program by closing its stdin, then SIGTERM, then SIGKILL, 2 s each
STDERR_SHOWN = 2000  # characters of a dead server's output in the error


@dataclass(frozen=True)
class Address:
    """Where a server is: a command or a URL. `env` and `headers` may hold secrets, so no repr shows them."""

    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return public_url(self.url) or "" if self.url else " ".join(self.command)


class RemoteSource(Source):
    """An MCP client in a task of its own; any number of calls share its connection."""

    REMOTE: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        prefix: str,
        address: Callable[[Binding | None, ExitStack], Address],
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
        self._client: Any = None
        self._life: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._files = ExitStack()
        self._stderr: IO[str] | None = None

    async def open(self, binding: Binding | None) -> None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        address = self._address(binding, self._files)
        label = f"tool server {self.name} ({address})"
        try:
            async with starting(label, self.startup):
                self._life = asyncio.create_task(self._live(address, binding, ready))
                await asyncio.wait({self._life, ready}, return_when=asyncio.FIRST_COMPLETED)
                if not ready.done():
                    raise ToolServerError(f"{label} did not start: {self._cause()}")
        except BaseException:
            await self.close()
            raise

    async def _live(self, address: Address, binding: Binding | None, ready: asyncio.Future[None]) -> None:
        """The connection's whole life: the SDK wants it opened and closed by one task."""
        async with AsyncExitStack() as stack:
            client = sdk("mcp.client.client").Client(
                await self._transport(address, stack), read_timeout_seconds=None, cache=None
            )
            await stack.enter_async_context(client)
            await self._list(client, binding)
            self._client = client
            ready.set_result(None)
            await self._stop.wait()

    async def _transport(self, address: Address, stack: AsyncExitStack) -> Any:
        if address.url is not None:
            httpx = sdk("httpx2")
            # Our own deadlines bind, so the client waits as long as they do.
            http = httpx.AsyncClient(headers=dict(address.headers), timeout=httpx.Timeout(None, connect=30.0))
            await stack.enter_async_context(http)
            return sdk("mcp.client.streamable_http").streamable_http_client(address.url, http_client=http)
        stdio = sdk("mcp.client.stdio")
        output = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - entered below
        self._stderr = self._files.enter_context(output)
        program, *arguments = address.command
        parameters = stdio.StdioServerParameters(
            command=program, args=arguments, env=dict(address.env), cwd=address.cwd
        )
        return stdio.stdio_client(parameters, errlog=self._stderr)

    async def _list(self, client: Any, binding: Binding | None) -> None:
        """Learn the tools, and take over what the server's `setup_task` did to the state."""
        from vfnb.tasks.tools.convert import tool_from_mcp

        found: list[Tool] = []
        cursor = None
        while True:
            page = await client.list_tools(cursor=cursor)
            found += [tool_from_mcp(tool) for tool in page.tools]
            cursor = page.next_cursor
            if not cursor:
                break
        changed = (page.meta or {}).get(STATE_KEY)
        if changed and binding is not None and self._stateful:
            merge(binding.holder.state, snapshot(binding.holder.state), changed)
        self.tools = self._chosen(found)

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
            try:
                async with asyncio.timeout(self._limit) as clock:
                    result = await self._send(name, arguments, before)
            except TimeoutError:
                if not clock.expired():
                    raise
                return failed(f"tool {name} did not answer within {self._limit:g} s")
            changed = (result.meta or {}).get(STATE_KEY) if before is not None else None
            if before is not None and changed:
                merge(binding.holder.state, before, changed)
        from vfnb.tasks.tools.convert import from_mcp

        return from_mcp(result).within(self._result_limit, name)

    async def _send(self, name: str, arguments: Mapping[str, Any], state: dict[str, Any] | None) -> Any:
        """The SDK's result; an error reply of the server as a result with `is_error`."""
        wire = sdk("mcp_types")
        if self._client is None or self._life is None or self._life.done():
            raise ToolServerError(f"tool server {self.name} is gone: {self._cause()}")
        meta = {STATE_KEY: state} if state is not None else None
        call = asyncio.ensure_future(self._client.call_tool(name, dict(arguments), meta=meta))
        try:
            await asyncio.wait({call, self._life}, return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                raise ToolServerError(f"tool server {self.name} is gone: {self._cause()}")
            return call.result()
        except sdk("mcp.shared.exceptions").MCPError as error:
            if error.error.code == wire.CONNECTION_CLOSED or _is_transport(error):
                raise ToolServerError(
                    f"tool server {self.name} died during {name}: {error}{self._tail()}"
                ) from error
            return wire.CallToolResult(content=[wire.TextContent(text=f"Error: {error}")], is_error=True)
        except (ToolServerError, StateConflict):
            raise
        except Exception as error:
            raise ToolServerError(f"tool server {self.name} failed in {name}: {_leaf(error)}") from error
        finally:
            call.cancel()

    def _cause(self) -> str:
        life = self._life
        if life is not None and life.done() and not life.cancelled() and life.exception() is not None:
            error = _leaf(life.exception())
            return f"{type(error).__name__}: {error}{self._tail()}"
        return f"the connection has ended{self._tail()}"

    def _tail(self) -> str:
        if self._stderr is None or self._stderr.closed:
            return ""
        self._stderr.seek(0)
        text = self._stderr.read()[-STDERR_SHOWN:].strip()
        return f"; its last output:\n{text}" if text else ""

    async def close(self) -> None:
        life, opened = self._life, self._client is not None
        self._client = None
        self._stop.set()
        if life is not None and not life.done():
            done, _ = await asyncio.wait({life}, timeout=CLOSE_S if opened else 0)
            if not done:
                life.cancel()
                await asyncio.wait({life}, timeout=CLOSE_S)
        self._files.close()


def _leaf(error: BaseException | None) -> BaseException | None:
    """The first error inside groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_transport(error: Any) -> bool:
    """Whether an error was made by the client's own transport rather than sent by the server."""
    return isinstance(_leaf(error.__cause__), OSError)


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
