"""One plain record per rollout: what tables, summaries and progress need, without the messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from vfnb.trace import Span, Trace

__all__ = ["Outcome", "Row", "trace_row"]

Outcome = Literal["running", "error", "cancelled", "dropped", "unscored", "scored"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A rollout in numbers. Only `task` is required."""

    task: str
    """The task's key; rollouts of one task share it."""
    idx: int | None = None
    """The task's position in its taskset."""
    name: str = ""
    """The task's name for people; the key if empty."""
    trace: str = ""
    """Trace id."""
    rollout: int = 0
    """Sample index within the task."""
    reward: float | None = None
    """Weighted sum; None if unscored."""
    ok: bool | None = None
    end_state: str | None = None
    """`completed`, `stopped`, `error`, `cancelled`, `dropped`; None while it runs."""
    stop: str | None = None
    """Name of the stop that ended the agent, if one did."""
    error: str | None = None
    """Class of the error that ended it, if one did."""
    boundary: str = ""
    """The part of the system where that error arose."""
    message: str = ""
    """That error's text."""
    skipped: bool = False
    """Scoring was skipped by a stop or a setting: the reward is 0.0 by rule, not by measurement."""
    rewards: Mapping[str, float | None] = field(default_factory=dict)
    """Unweighted values by name."""
    weights: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    turns: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    """US dollars; None if unknown."""
    time_s: float | None = None
    """From the start of the first stage to the end of the last, in seconds."""
    reused: bool = False

    @property
    def outcome(self) -> Outcome:
        """What became of the rollout. Only `scored` ones count in reward means."""
        state = self.end_state or ""
        if state.startswith("error"):
            return "error"
        if state.startswith("cancelled"):
            return "cancelled"
        if state.startswith("dropped"):
            return "dropped"
        if not state:
            return "running"
        return "unscored" if self.reward is None or self.reward != self.reward else "scored"


def trace_row(trace: Trace, *, reused: bool = False) -> Row:
    """The record of one trace."""
    error = trace.errors[-1] if trace.errors and trace.has_error else None
    usage = trace.usage
    return Row(
        task=trace.task.key or str(trace.task.idx),
        idx=trace.task.idx,
        name=trace.task.name or "",
        trace=trace.id,
        rollout=trace.rollout,
        reward=trace.reward,
        ok=trace.ok,
        end_state=trace.end_state,
        stop=trace.stop_condition,
        error=error.type if error else None,
        boundary=error.boundary if error else "",
        message=error.message if error else "",
        skipped=bool(trace.info.get("scoring_skipped")),
        rewards={name: reward.value for name, reward in trace.rewards.items()},
        weights={name: reward.weight for name, reward in trace.rewards.items()},
        metrics=dict(trace.metrics),
        turns=trace.num_turns,
        tokens_in=usage.prompt_tokens,
        tokens_out=usage.completion_tokens,
        cost=usage.cost,
        time_s=_time(trace.timing),
        reused=reused,
    )


def _time(timing: Mapping[str, Span]) -> float | None:
    ends = [span.end for span in timing.values() if span.end is not None]
    return max(ends) - min(span.start for span in timing.values()) if ends else None
