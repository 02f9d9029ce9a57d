"""What a live display needs to know about a run: a snapshot in plain values, filled by whoever runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vfnb.lab.rows import Row
from vfnb.lab.stats import Summary

__all__ = ["RunState", "RunView"]

RunState = Literal["running", "finished", "cancelled", "failed", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run at one moment. Displays read nothing else, so a snapshot may be drawn on any thread."""

    name: str
    total: int
    """Rollouts planned."""
    done: int
    """Rollouts that ended in any way."""
    running: int = 0
    """Rollouts under way now."""
    failed: int = 0
    """Rollouts ended by an error; never counted as reward 0."""
    cancelled: int = 0
    reused: int = 0
    """Rollouts taken over from disk without a model call."""
    rescored: int = 0
    """Of the reused ones, those whose scores were computed anew."""
    state: RunState = "running"
    summary: Summary | None = None
    rows: Sequence[Row] = ()
    """The first rollouts; a display shows at most 50."""
    rows_total: int = 0
    """How many rollouts there are to show."""
    taskset: str = ""
    model: str = ""
    harness: str = ""
    dir: str = ""
    elapsed_s: float | None = None
    eta_s: float | None = None
    """Time left, in seconds; None if it cannot be told."""
    error: str = ""
    """Why the run as a whole stopped (budget, dead endpoint); `""` if it did not."""
    notes: tuple[str, ...] = ()
    """Short remarks, e.g. a warning that retries shift the distribution."""
    doing: tuple[str, ...] = ()
    """What rollouts wait for now, e.g. the installation of a program."""

    @property
    def complete(self) -> bool:
        """Whether every planned rollout ended, and none because the run was stopped."""
        return self.done >= self.total and self.state == "finished"
