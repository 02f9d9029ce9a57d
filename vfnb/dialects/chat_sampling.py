"""Sampling settings of Chat Completions under canonical names, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vfnb.dialects.base import Raws, load

__all__ = ["asked", "body", "wire"]

_NOT_SAMPLING = frozenset({"model", "messages", "tools", "functions", "stream", "stream_options"})


def asked(fields: Raws) -> dict[str, Any]:
    """What the program asked for; `max_completion_tokens` wins over `max_tokens`, `stop` is a list."""
    values = {name: load(raw) for name, raw in fields.items() if name not in _NOT_SAMPLING}
    longest = values.pop("max_completion_tokens", None)
    if longest is not None:
        values["max_tokens"] = longest
    if isinstance(values.get("stop"), str):
        values["stop"] = [values["stop"]]
    choice = values.get("tool_choice")
    if isinstance(choice, dict) and isinstance(choice.get("function"), dict) and "name" in choice["function"]:
        values["tool_choice"] = {"name": choice["function"]["name"]}
    return values


def wire(fields: Raws, sampling: Mapping[str, Any]) -> dict[str, Any]:
    """The run's settings under wire names: the length goes where the program put its own."""
    values = _named(sampling)
    if values.get("max_tokens") is not None and "max_completion_tokens" in fields:
        values["max_completion_tokens"] = values.pop("max_tokens")
    return values


def body(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a request that is written anew."""
    values = _named(sampling)
    more = values.pop("extra_body", {})
    return {name: value for name, value in values.items() if value is not None} | dict(more)


def _named(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """A copy in which a tool that must be called stands as Chat has it."""
    values = dict(sampling)
    choice = values.get("tool_choice")
    if isinstance(choice, dict) and choice.keys() == {"name"}:
        values["tool_choice"] = {"type": "function", "function": choice}
    return values
