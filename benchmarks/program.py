"""A program that talks to a token client: its history grows by a tool's result of about 1,000 tokens a turn."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.data import Source

__all__ = ["COMPLETION", "SIZES", "Program", "figures"]

SIZES = {"1k": 1_500, "10k": 10_000, "100k": 100_000}
"""Tokens of history at which a call is measured."""
COMPLETION = (
    "<think>\nI look at the next file and then go on with the work that was asked for.\n</think>\n\n<tool_call>\n"
    '{"name": "bash", "arguments": {"command": "cat next.py"}}\n</tool_call><|im_end|>'
)
"""What the engine says each time, in the Qwen3 form."""
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Run a command.",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
        },
    }
]
PIECES = 330  # of a tool's result


class Program:
    """Its messages, and the text that each turn adds."""

    def __init__(self) -> None:
        self._source = Source(0)
        self.messages: list[dict[str, Any]] = [
            {"role": "system", "content": "".join(self._source.take(100))},
            {"role": "user", "content": "".join(self._source.take(100))},
        ]

    def body(self) -> bytes:
        """The request: everything so far."""
        return json.dumps({"model": "mock", "messages": self.messages, "tools": TOOLS}).encode()

    def hear(self, reply: dict[str, Any]) -> int:
        """Take a reply and run its tool; returns the tokens of the prompt that it answered."""
        message = reply["choices"][0]["message"]
        (call,) = message["tool_calls"]
        result = "".join(self._source.take(PIECES))
        self.messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": result}]
        tokens: int = reply["usage"]["prompt_tokens"]
        return tokens


def figures(calls: Sequence[tuple[int, float]], name: str = "") -> dict[str, float]:
    """CPU ms at each size: the median of the five calls with the nearest number of prompt tokens."""
    result = {}
    for label, size in SIZES.items():
        nearest = sorted(calls, key=lambda call: abs(call[0] - size))[: 3 if size < 5_000 else 5]
        result[f"{name}{label}_ms"] = statistics.median(spent for _, spent in nearest)
    return result
