"""Sound Chat requests, as different from each other as they can be."""

from __future__ import annotations

from typing import Any

__all__ = ["BODIES"]

TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}, "strict": True}}
PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
BODIES: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": "hi"}], "stream": True, "stop": "x"},
    {
        "messages": [
            {"role": "developer", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "look"}, PNG], "name": "bob"},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "hm",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "3"}]},
        ],
        "tools": [TOOL, {"type": "custom", "custom": {"name": "patch", "format": {"type": "text"}}}],
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "response_format": {"type": "json_object"},
        "max_completion_tokens": 5,
        "reasoning_effort": "low",
    },
]
