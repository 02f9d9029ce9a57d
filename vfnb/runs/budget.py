"""What a run may spend in all; reaching it stops the run, and a larger budget resumes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vfnb.trace import Trace

__all__ = ["Budget"]


@dataclass(slots=True)
class Budget:
    """Running totals against their bounds. Costs nothing per message: it reads the trace's own counters."""

    max_tokens: int | None = None
    """Prompt plus completion tokens over all rollouts, those of earlier sittings included."""
    max_cost: float | None = None
    """US dollars, as far as the cost of calls is known."""
    tokens: int = 0
    cost: float = 0.0
    _seen: dict[str, tuple[int, float]] = field(default_factory=dict)

    @property
    def bounded(self) -> bool:
        """Whether there is a bound at all."""
        return self.max_tokens is not None or self.max_cost is not None

    def add(self, trace: Trace) -> str | None:
        """Count what a trace has spent since it was last seen; the reason to stop, if there is one."""
        counters = trace.dag.counters
        tokens, cost = self._seen.get(trace.id, (0, 0.0))
        self.tokens += counters.total_tokens - tokens
        self.cost += counters.cost - cost
        self._seen[trace.id] = (counters.total_tokens, counters.cost)
        return self.reached()

    def forget(self, trace_id: str) -> None:
        """A trace has ended; its spending stays counted."""
        self._seen.pop(trace_id, None)

    def reached(self) -> str | None:
        """Why the run must stop, or None."""
        if self.max_tokens is not None and self.tokens >= self.max_tokens:
            return f"max_tokens={self.max_tokens} is used up ({self.tokens} tokens); a larger one resumes the run"
        if self.max_cost is not None and self.cost >= self.max_cost:
            return f"max_cost={self.max_cost} is used up (${self.cost:.4f}); a larger one resumes the run"
        return None
