"""`McpServer`: any MCP server as a source of tools."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from vfnb.tasks.tools.config import ToolsetTimeout
from vfnb.tasks.tools.marks import tool_name
from vfnb.utils.config import BaseConfig
from vfnb.utils.ids import digest

__all__ = ["McpServer"]


class McpServer(BaseConfig):
    """A server that is not ours, by command (stdio) or by URL (streamable HTTP), wherever a toolset may stand.

    Args:
        settings: the fields below.

    Raises:
        ConfigError: neither or both of `command` and `url`, or a name that no provider accepts.
    """

    name: str = ""
    """The server's name for programs; taken from the command or the URL by default."""
    prefix: str = ""
    """Put before each tool's name, with `_` between."""
    command: list[str] = []
    """Program and arguments of a stdio server; it gets a scrubbed environment."""
    env: dict[str, str] = {}
    """Variables for the command; a value `env:NAME` is read from this process's environment at the start."""
    cwd: str | None = None
    """Working folder of the command; None is this process's."""
    url: str | None = None
    """Address of a streamable-HTTP server."""
    headers: dict[str, str] = {}
    """Headers for the URL; a value `env:NAME` is read from the environment at the start."""
    tools: list[str] | None = None
    """Names of the tools to offer; None offers all."""
    timeout: ToolsetTimeout = ToolsetTimeout()
    """Limits of start and calls."""
    result_limit: int = Field(default=1_000_000, ge=1_000)
    """Bytes of text that one result may have; a larger one becomes a tool error."""

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError('give either command=["program", "argument"] or url="http://host/mcp"')
        if self.url is not None and urlsplit(self.url).scheme not in ("http", "https"):
            raise ValueError('write the whole URL, for example url="http://127.0.0.1:8000/mcp"')
        if self.url is not None and (self.env or self.cwd):
            raise ValueError("env and cwd belong to a command; a URL takes headers")
        if self.command and self.headers:
            raise ValueError("headers belong to a URL; a command takes env")
        for name in filter(None, (self.name, self.prefix)):
            tool_name(name)
        return self

    @property
    def label(self) -> str:
        """The server's name: as given, or the prefix, or taken from command or URL."""
        if self.name or self.prefix:
            return self.name or self.prefix
        if self.url is not None:
            plain = urlsplit(self.url).hostname or "server"
        else:
            words = [PurePath(word).stem for word in self.command if not word.startswith("-")]
            plain = next(
                (word for word in words if not re.match(r"^(python[\d.]*|uvx?|npx|node|run)$", word)),
                words[0],
            )
        return re.sub(r"[^A-Za-z0-9_-]+", "_", plain)[:64].strip("_") or "server"

    def identity(self) -> dict[str, Any]:
        """What decides, with the task, whether an old rollout may be reused; no secrets."""
        from vfnb.clients.address import public_url  # not at the top: it loads the clients

        return {
            "name": self.label,
            "prefix": self.prefix,
            "command": self.command,
            "url": public_url(self.url),
            "tools": self.tools,
            "env": {
                name: value if value.startswith("env:") else digest(value) for name, value in self.env.items()
            },
        }
