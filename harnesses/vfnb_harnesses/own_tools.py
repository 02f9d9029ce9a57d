"""The tools that a program brings along, as far as settings name them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from vfnb.errors import ConfigError
from vfnb.utils.config import nearest

__all__ = ["check_disabled"]


def check_disabled(program: str, disabled: Iterable[str], own: Collection[str], tool_name: str) -> None:
    """Refuse a tool to disable that the program does not have: it would pass that over without a word.

    Args:
        program: name and version, for the message.
        disabled: tool names; a rule such as `Bash(git *)` is held against its tool, a pattern with `*` is let pass.
        own: its tools; empty lets everything pass.
        tool_name: how it names a tool of an MCP server, which may be disabled, too.

    Raises:
        ConfigError: with the nearest of its tools, and all of them.
    """
    remote = tool_name.partition("{")[0]
    for rule in disabled if own else ():
        tool = rule.partition("(")[0]
        if tool in own or "*" in tool or (remote and tool.startswith(remote)):
            continue
        near = nearest(tool, own)
        raise ConfigError(
            f"harness.disabled_tools: {program} has no tool {tool!r}; "
            + (f"did you mean {near!r}? " if near else "")
            + f"It has {', '.join(sorted(own))}"
        )
