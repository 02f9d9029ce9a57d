"""Which tools a task has, checked before anything is paid for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from vfnb.errors import ConfigError, TasksetError
from vfnb.tasks.tools.config import in_process
from vfnb.tasks.tools.foreign import McpServer
from vfnb.tasks.tools.marks import tool_names
from vfnb.tasks.tools.sdk import require_sdk
from vfnb.tasks.tools.source import LocalSource, Source
from vfnb.tasks.tools.toolset import Toolset

if TYPE_CHECKING:
    from vfnb.tasks.task import Task

__all__ = ["ToolItem", "check_tools", "claim", "own_tools", "shared_tools", "source_of", "tools_identity"]

ToolItem: TypeAlias = Toolset[Any, Any] | McpServer


def own_tools(task: Task[Any, Any, Any]) -> list[ToolItem]:
    """New toolsets for one rollout of a task.

    Raises:
        TasksetError: `toolsets` gave something else.
    """
    return _items(type(task).toolsets(task.config), f"{type(task).__name__}.toolsets(config)")


def shared_tools(task: Task[Any, Any, Any]) -> list[ToolItem]:
    """New toolsets for all rollouts of the taskset that a task comes from.

    Raises:
        TasksetError: `toolsets` gave something else.
    """
    taskset = task.taskset
    if taskset is None:
        return []
    return _items(type(taskset).toolsets(taskset.config), f"{type(taskset).__name__}.toolsets(config)")


def source_of(item: ToolItem) -> Source:
    """What runs a toolset where its config says, or connects to a foreign server.

    Raises:
        ConfigError: it cannot run there.
    """
    if isinstance(item, McpServer):
        from vfnb.tasks.tools.remote import foreign_source

        return foreign_source(item)
    if item.config.url is None and in_process(item.config.runtime):
        return LocalSource(item)
    from vfnb.tasks.tools.launch import hosted_source

    return hosted_source(item)


def check_tools(task: Task[Any, Any, Any], harness: str, *, supported: bool) -> None:
    """Refuse, before any model call, tools that cannot work.

    Args:
        harness: its name, for the message.
        supported: whether it takes tools.

    Raises:
        ConfigError: the harness takes none, a toolset cannot run where its config says, or its state is not
            the task's.
        MissingExtra: a server needs the mcp SDK.
    """
    items = [*shared_tools(task), *own_tools(task)]
    if not items:
        return
    if not supported:
        listed = ", ".join(type(item).__name__ if isinstance(item, Toolset) else item.label for item in items)
        raise ConfigError(
            f"harness {harness!r} takes no tools (SUPPORTS_MCP is False), and {type(task).__name__} comes with "
            f"{listed}; use a harness that does, for example a function with session.tools and session.call_tool"
        )
    owners: dict[str, str] = {}
    for item in items:
        source = source_of(item)
        if source.REMOTE:
            require_sdk(f"tool server {source.name}")
        if isinstance(item, Toolset):
            _check_state(item, task)
        if isinstance(source, LocalSource):
            claim(owners, source.label, source.prefix, tool_names(type(source.toolset)))


def tools_identity(task: Task[Any, Any, Any]) -> list[dict[str, Any]]:
    """What decides about the reuse of a rollout: class, config and code of each toolset, in order."""
    return [item.identity() for item in [*shared_tools(task), *own_tools(task)]]


def claim(owners: dict[str, str], owner: str, prefix: str, tools: Iterable[str]) -> list[str]:
    """Enter the full names of a source's tools.

    Raises:
        ConfigError: another one has such a name.
    """
    found = [f"{prefix}_{name}" if prefix else name for name in tools]
    for name in found:
        if name in owners:
            raise ConfigError(
                f"{owners[name]} and {owner} both offer a tool {name!r}; give one of the toolsets a TOOL_PREFIX, "
                "or the McpServer a prefix"
            )
        owners[name] = owner
    return found


def _items(found: Any, label: str) -> list[ToolItem]:
    if not isinstance(found, list | tuple):
        raise TasksetError(f"{label} gave {type(found).__name__}; return a list of toolsets")
    for item in found:
        if not isinstance(item, Toolset | McpServer):
            hint = "; make an object of it" if isinstance(item, type) else ""
            raise TasksetError(f"{label} gave {item!r}; give Toolset objects or vf.McpServer(...){hint}")
    return list(found)


def _check_state(toolset: Toolset[Any, Any], task: Task[Any, Any, Any]) -> None:
    wanted, given = toolset.state_type(), type(task).state_type()
    if not issubclass(given, wanted):
        raise ConfigError(
            f"{type(toolset).__name__} shares {wanted.__name__} with its rollout, but {type(task).__name__} has "
            f"{given.__name__}; write class {type(task).__name__}(vf.Task[..., {wanted.__name__}])"
        )
