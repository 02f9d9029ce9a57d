"""One MCP connection to a server that is not in this process: opened, used by many calls, lost, closed."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from typing import IO, Any

from vfnb.clients.address import public_url
from vfnb.errors import ToolServerError
from vfnb.runtimes import warden
from vfnb.tasks.tools.sdk import sdk

__all__ = ["Address", "Connection"]

CLOSE_S = 8.0  # the SDK ends a program by closing its stdin, then SIGTERM, then SIGKILL, 2 s each
LOST_S = 1.0  # longest wait for the reason of a loss
CONNECT_S = 30.0
STDERR_SHOWN = 2000  # bytes of a dead server's output in the error


@dataclass(frozen=True)
class Address:
    """Where a server is: a command or a URL. `env` and `headers` may hold secrets, so no repr shows them."""

    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    hint: str = ""
    """What to look at if it ends without a word."""

    def __str__(self) -> str:
        return public_url(self.url) or "" if self.url else " ".join(self.command)


class Connection:
    """Lives in a task of its own, as the SDK wants it; made and used on the loop of hooks.

    Args:
        label: the server's name in messages.
        files: what must go when the connection goes.
    """

    def __init__(self, label: str, address: Address, files: ExitStack) -> None:
        self.label = label
        self.listed: list[Any] = []
        """The server's tools, as the SDK gives them."""
        self.meta: dict[str, Any] = {}
        """`_meta` of the last page of that list."""
        self._address = address
        self._files = files
        self._client: Any = None
        self._life: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._stderr: IO[bytes] | None = None

    @property
    def lost(self) -> bool:
        """Whether no call can go through it any more."""
        return self._client is None or self._life is None or self._life.done()

    async def open(self) -> None:
        """Connect and list the tools. The caller sets the deadline, and calls `close` whatever happens.

        Raises:
            ToolServerError: no server answers, or it ends at once.
        """
        await asyncio.to_thread(_load, self._address)  # seconds of imports would hold up every other hook
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live(ready))
        await asyncio.wait({self._life, ready}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            hint = "" if self._tail() or not self._address.hint else f"; {self._address.hint}"
            raise ToolServerError(f"{self.label} ({self._address}) did not start: {self._cause()}{hint}")

    async def _live(self, ready: asyncio.Future[None]) -> None:
        async with AsyncExitStack() as stack:
            transport = await self._transport(stack)
            client = await stack.enter_async_context(
                sdk("mcp.client.client").Client(transport, read_timeout_seconds=None, cache=None)
            )
            cursor = None
            while True:
                page = await client.list_tools(cursor=cursor)
                self.listed += page.tools
                self.meta = page.meta or {}
                cursor = page.next_cursor
                if not cursor:
                    break
            self._client = client
            ready.set_result(None)
            await self._stop.wait()

    async def _transport(self, stack: AsyncExitStack) -> Any:
        address = self._address
        if address.url is not None:
            httpx = sdk("httpx2")
            # The calls' own deadlines bind, so the client waits as long as they do.
            http = httpx.AsyncClient(
                headers=dict(address.headers),
                timeout=httpx.Timeout(None, connect=CONNECT_S),
                limits=httpx.Limits(max_connections=None),
            )
            await stack.enter_async_context(http)
            return sdk("mcp.client.streamable_http").streamable_http_client(address.url, http_client=http)
        output = tempfile.TemporaryFile()  # noqa: SIM115 - entered in the next line
        self._stderr = self._files.enter_context(output)
        stdio = sdk("mcp.client.stdio")
        program, *arguments = address.command
        env = {**address.env, **warden.current().guard()}
        parameters = stdio.StdioServerParameters(command=program, args=arguments, env=env, cwd=address.cwd)
        return stdio.stdio_client(parameters, errlog=self._stderr)

    async def call(self, name: str, arguments: Mapping[str, Any], meta: dict[str, Any] | None) -> Any:
        """The SDK's result; an error reply of the server is one with `is_error`.

        Raises:
            ToolServerError: the server is gone.
        """
        if self.lost:
            raise ToolServerError(f"{self.label} is gone: {self._cause()}")
        assert self._life is not None
        wire, error_type = sdk("mcp_types"), sdk("mcp.shared.exceptions").MCPError
        call = asyncio.ensure_future(self._client.call_tool(name, dict(arguments), meta=meta))
        try:
            await asyncio.wait({call, self._life}, return_when=asyncio.FIRST_COMPLETED)
            if not call.done() or call.cancelled():
                await self._end(name)
            return call.result()
        except error_type as error:
            gone = error.error.code == wire.CONNECTION_CLOSED or "Session terminated" in str(error)
            if gone or self._life.done():
                await self._end(name, error)
            return wire.CallToolResult(content=[wire.TextContent(text=f"Error: {error}")], is_error=True)
        except ToolServerError:
            raise
        except Exception as error:  # an answer that is not what the server's own schema says
            text = f"Error: {self.label} gave an invalid answer: {error}"
            return wire.CallToolResult(content=[wire.TextContent(text=text)], is_error=True)
        finally:
            call.cancel()

    async def _end(self, name: str, error: Exception | None = None) -> None:
        """Raise what ended the connection."""
        assert self._life is not None
        self._stop.set()
        self._client = None
        await asyncio.wait({self._life}, timeout=LOST_S)
        raise ToolServerError(f"{self.label} died during {name}: {self._cause(error)}") from error

    def _cause(self, error: Exception | None = None) -> str:
        life = self._life
        found: BaseException | None = error
        if life is not None and life.done() and not life.cancelled():
            found = _leaf(life.exception()) or error
        text = "the connection has ended" if found is None else f"{type(found).__name__}: {found}"
        return text + self._tail()

    def _tail(self) -> str:
        if self._stderr is None or self._stderr.closed:
            return ""
        size = os.fstat(self._stderr.fileno()).st_size
        # Not `seek`: the server writes at the same position.
        data = os.pread(self._stderr.fileno(), STDERR_SHOWN, max(0, size - STDERR_SHOWN))
        text = data.decode(errors="replace").strip()
        return f"; its last output:\n{text}" if text else ""

    async def close(self) -> None:
        """Disconnect, and end a program. Safe to repeat."""
        life, polite = self._life, self._client is not None
        self._client = None
        self._stop.set()
        if life is not None and not life.done():
            done, _ = await asyncio.wait({life}, timeout=CLOSE_S if polite else 0)
            if not done:
                life.cancel()
                await asyncio.wait({life}, timeout=CLOSE_S)
        if life is not None and life.done() and not life.cancelled():
            life.exception()  # seen
        self._files.close()


def _load(address: Address) -> None:
    for module in ("mcp.client.client", "mcp.client.stdio", "mcp.client.streamable_http", "jsonschema"):
        sdk(module)


def _leaf(error: BaseException | None) -> BaseException | None:
    """The first error inside groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
