"""`Toolset.run()`: a toolset as the main thing of a process, on stdio for a run or on HTTP for everybody."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pydantic import create_model

from vfnb import loops
from vfnb.tasks.data import TaskData
from vfnb.tasks.tools.binding import Binding, changes, snapshot
from vfnb.tasks.tools.launch import LAUNCH
from vfnb.tasks.tools.port import refuse
from vfnb.tasks.tools.remote import STATE_KEY
from vfnb.tasks.tools.results import ToolResult, failed
from vfnb.tasks.tools.sdk import sdk
from vfnb.tasks.tools.source import LocalSource
from vfnb.tasks.tools.wire import http_manager, mcp_server, uvicorn_server
from vfnb.types import Tool

__all__ = ["main"]


def main(cls: type, config: Any = None) -> None:
    """Serve until the client goes, or for ever."""
    path = os.environ.pop(LAUNCH, None)
    work = _launched(cls, json.loads(Path(path).read_text())) if path else _by_hand(cls, config)
    try:
        loops.hooks().run(work)
    except KeyboardInterrupt:
        sys.exit(130)


class _Served:
    """A toolset and what the SDK's server asks of it."""

    def __init__(self, cls: Any, config: Any) -> None:
        self.toolset = cls(config)
        self.source = LocalSource(self.toolset)
        self.binding: Binding | None = None
        self.early: dict[str, Any] = {}
        """What `setup_task` changed of the state; it travels with the first list of tools."""
        self.server = mcp_server(self.source.name, self._list, self._call)

    async def open(self, task: Any = None, state: Mapping[str, Any] | None = None) -> None:
        if task is not None:
            self.binding = Binding(self._holder(state), task=task)
        await self.source.open(self.binding)
        if self.binding is not None and state is not None:
            self.early = changes(state, snapshot(self.binding.holder.state))

    def _holder(self, state: Mapping[str, Any] | None) -> Any:
        kind = self.toolset.state_type()
        text = json.dumps(state) if state is not None else "{}"
        return SimpleNamespace(state=kind.model_validate_json(text))

    async def _list(self, context: Any) -> tuple[list[Tool], dict[str, Any] | None]:
        early, self.early = self.early, {}
        return self.source.tools, {STATE_KEY: early} if early else None

    async def _call(
        self, context: Any, name: str, arguments: Mapping[str, Any]
    ) -> tuple[ToolResult, dict[str, Any] | None]:
        if name not in {tool.name for tool in self.source.tools}:
            return failed(f"there is no tool {name!r}"), None
        before = (context.meta or {}).get(STATE_KEY)
        task = self.binding.task if self.binding is not None else None
        binding = Binding(self._holder(before), task=task)
        result = await self.source.call(name, arguments, binding)
        changed = changes(before, snapshot(binding.holder.state)) if before is not None else None
        return result, {STATE_KEY: changed} if changed else None


async def _launched(cls: type, order: dict[str, Any]) -> None:
    found: Any = sys.modules[cls.__module__]
    for name in order["class"].split("."):
        found = getattr(found, name)
    task = order.get("task")
    # From here on the protocol has the standard output; what user code prints goes to the standard error.
    async with sdk("mcp.server.stdio").stdio_server() as (read, write):
        served = _Served(found, order["config"])
        await served.open(_task_data(**task) if task else None, order.get("state"))
        try:
            await served.server.run(read, write, served.server.create_initialization_options())
        finally:
            await served.source.close()


def _task_data(type: str, data: dict[str, Any]) -> TaskData:
    """The record as its own class, or one with the same fields if that class is in a notebook."""
    module, _, qualname = type.partition(":")
    found: Any = None
    if module != "__main__" and "<locals>" not in qualname:
        __import__(module)
        found = sys.modules[module]
        for name in qualname.split("."):
            found = getattr(found, name)
    if found is None:
        fields: dict[str, Any] = {name: (Any, ...) for name in data if name not in TaskData.model_fields}
        found = create_model(qualname.rpartition(".")[2], __base__=TaskData, **fields)
    checked: TaskData = found.model_validate(data)
    return checked


async def _by_hand(cls: type, config: Any) -> None:
    parser = argparse.ArgumentParser(description=f"Serve {cls.__name__} over streamable HTTP.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--path", default="/mcp")
    options = parser.parse_args()
    served = _Served(cls, config)
    await served.open()
    security = sdk("mcp.server.transport_security").TransportSecuritySettings
    local = options.host in ("127.0.0.1", "localhost", "::1")
    hosts = [f"{host}:{options.port}" for host in ("127.0.0.1", "localhost", "[::1]")]
    manager = http_manager(
        served.server, security(enable_dns_rebinding_protection=local, allowed_hosts=hosts)
    )

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"].rstrip("/") == options.path.rstrip("/"):
            await manager.handle_request(scope, receive, send)
        else:
            await refuse(send, 404)

    server = uvicorn_server(app)
    server.config.host, server.config.port = options.host, options.port
    print(f'{cls.__name__}: url = "http://{options.host}:{options.port}{options.path}"', flush=True)
    try:
        async with manager.run():
            await server.serve()
    finally:
        await asyncio.shield(served.source.close())
