"""The `mcp` SDK, imported when it is first needed (1 s of CPU), with a clear word if it is missing."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from vfnb.errors import MissingExtra

__all__ = ["require_sdk", "sdk", "types"]


def require_sdk(purpose: str) -> None:
    """Check that the SDK is there, without importing it.

    Raises:
        MissingExtra: it is not; the message has the purpose and the command.
    """
    if importlib.util.find_spec("mcp") is None or importlib.util.find_spec("mcp_types") is None:
        raise MissingExtra(f"{purpose} needs the mcp SDK, version 2: pip install 'vfnb[mcp]'")


def sdk(module: str) -> Any:
    """A module of the SDK, for example `mcp.client.client`.

    Raises:
        MissingExtra: it cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(f"MCP needs the mcp SDK, version 2 ({error}): pip install 'vfnb[mcp]'") from error


def types() -> Any:
    """The SDK's wire types."""
    return sdk("mcp_types")
