"""Token counts and stop reasons of Anthropic Messages, both directions."""

from __future__ import annotations

from typing import Any

from vfnb.types import FinishReason, Response, Usage

__all__ = ["finish_reason", "plain_reason", "stop_reason", "usage", "wire_usage"]

_FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "compaction": "stop",
}
_PLAIN = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
    "error": "end_turn",
}
_MOST = 1e15  # what is more is no count, and no sum of counts may leave 64 bits


def plain_reason(reason: str) -> bool:
    """Whether the canonical reason says the same."""
    return reason in _PLAIN.values()


def finish_reason(value: Any, calls: bool) -> FinishReason:
    """The canonical reason; `tool_calls` only if a call came."""
    reason = _FINISH.get(value, "stop") if isinstance(value, str) else "stop"
    return "stop" if reason == "tool_calls" and not calls else reason


def stop_reason(response: Response) -> tuple[str, str | None]:
    """`stop_reason` and `stop_sequence`: the provider's own where it said more than the canonical one."""
    extra = response.message.model_extra or {}
    reason = extra.get("stop_reason")
    if isinstance(reason, str) and _FINISH.get(reason, "stop") == response.finish_reason:
        return reason, extra.get("stop_sequence")
    return _PLAIN[response.finish_reason], None


def usage(value: Any) -> Usage | None:
    """Canonical counts: the prompt is what was read anew, read from the cache and written to it."""
    if not isinstance(value, dict):
        return None
    cached = _count(value, "cache_read_input_tokens")
    details = value.get("output_tokens_details")
    return Usage(
        prompt_tokens=_count(value, "input_tokens") + cached + _count(value, "cache_creation_input_tokens"),
        completion_tokens=_count(value, "output_tokens"),
        cached_tokens=cached,
        reasoning_tokens=_count(details, "thinking_tokens"),
        cost=_amount(value, "cost"),
    )


def _count(source: Any, name: str) -> int:
    value = source.get(name) if isinstance(source, dict) else None
    if type(value) is int and 0 <= value < _MOST:  # nearly always
        return value
    return int(_amount(source, name) or 0)


def _amount(source: Any, name: str) -> float | None:
    """A number of things or dollars, None if it cannot be one."""
    value = source.get(name) if isinstance(source, dict) else None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST:
        return float(value)
    return None


def wire_usage(source: Usage | None) -> dict[str, Any]:
    """A `usage` object; every reply must have one."""
    found = source or Usage()
    data: dict[str, Any] = {
        "input_tokens": max(0, found.prompt_tokens - found.cached_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": found.cached_tokens,
        "output_tokens": found.completion_tokens,
    }
    if found.reasoning_tokens:
        data["output_tokens_details"] = {"thinking_tokens": found.reasoning_tokens}
    if found.cost is not None:
        data["cost"] = found.cost
    return data
