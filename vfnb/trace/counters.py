"""Running totals of a graph's calls."""

from __future__ import annotations

import msgspec

from vfnb.trace.calls import ModelCall

__all__ = ["Counters"]


class Counters(msgspec.Struct):
    """Running totals, kept at each commit. Each sampled node counts once, however many branches share it."""

    calls: int = 0
    turns: int = 0
    """Calls with a complete reply."""
    failed: int = 0
    """Failed or cut calls."""
    prompt_tokens: int = 0
    """Prompt tokens sent, summed over calls."""
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float = 0.0
    priced: int = 0
    """Calls whose cost is known."""

    @property
    def total_tokens(self) -> int:
        """Prompt plus completion."""
        return self.prompt_tokens + self.completion_tokens

    def add(self, call: ModelCall, sign: int = 1) -> None:
        """Count a call in (or out, with `sign=-1`)."""
        self.calls += sign
        if call.reply_node is None:
            self.failed += sign
        else:
            self.turns += sign
        usage = call.usage
        if usage is not None:
            self.prompt_tokens += sign * usage.prompt_tokens
            self.completion_tokens += sign * usage.completion_tokens
            self.cached_tokens += sign * usage.cached_tokens
            self.reasoning_tokens += sign * usage.reasoning_tokens
            if usage.cost is not None:
                self.priced += sign
                self.cost += sign * usage.cost
