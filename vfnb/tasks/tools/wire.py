"""A server of the `mcp` SDK in front of a source, and its streamable-HTTP application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from vfnb.tasks.tools.convert import to_mcp, tool_to_mcp
from vfnb.tasks.tools.results import ToolResult
from vfnb.tasks.tools.sdk import sdk, types
from vfnb.types import Tool

__all__ = ["http_manager", "load", "mcp_server", "uvicorn_server"]

BODY_LIMIT = 16 << 20  # bytes of one request: arguments may carry a file
List = Callable[[Any], Awaitable[tuple[list[Tool], dict[str, Any] | None]]]
Call = Callable[[Any, str, Mapping[str, Any]], Awaitable[tuple[ToolResult, dict[str, Any] | None]]]


def load() -> None:
    """Import what a server needs."""
    for module in ("mcp.server.lowlevel", "mcp.server.streamable_http_manager", "uvicorn"):
        sdk(module)


def mcp_server(name: str, listing: List, call: Call) -> Any:
    """A low-level SDK server that offers tools only.

    Args:
        listing: from the SDK's request context to the tools and the answer's `_meta`.
        call: the same for a call, with the tool's name and its arguments.
    """
    wire = types()

    async def on_list_tools(context: Any, params: Any) -> Any:
        tools, meta = await listing(context)
        return wire.ListToolsResult(tools=[tool_to_mcp(tool) for tool in tools], _meta=meta)

    async def on_call_tool(context: Any, params: Any) -> Any:
        result, meta = await call(context, params.name, params.arguments or {})
        return to_mcp(result, meta)

    server = sdk("mcp.server.lowlevel").Server(name, on_list_tools=on_list_tools, on_call_tool=on_call_tool)
    server.middleware.clear()  # tracing spans for nobody, a tenth of a call's cost
    return server


def http_manager(server: Any, security: Any = None) -> Any:
    """The SDK's application for a server. Each request stands alone, so that nothing is left of a client."""
    manager = sdk("mcp.server.streamable_http_manager").StreamableHTTPSessionManager
    return manager(
        server,
        json_response=True,
        stateless=True,
        security_settings=security,
        max_request_body_size=BODY_LIMIT,
    )


def uvicorn_server(app: Any) -> Any:
    """A uvicorn server that leaves logging, signals and the loop alone."""
    uvicorn = sdk("uvicorn")
    config = uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        log_config=None,
        log_level="critical",
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)
