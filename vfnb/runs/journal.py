"""The run's store as the journal of its rollouts."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from vfnb.agents import Ids
from vfnb.lab.rows import Row, trace_row
from vfnb.runs.budget import Budget
from vfnb.runs.plan import task_row
from vfnb.store import EpisodeRow, RunStore, TraceRow

if TYPE_CHECKING:
    from vfnb.trace import Delta, Trace

__all__ = ["StoreJournal"]


class StoreJournal:
    """Writes rollouts to the store, keeps the running ones at hand, watches the budget. Engine loop only."""

    def __init__(
        self, store: RunStore, version: int, budget: Budget, on_spent: Callable[[str], None]
    ) -> None:
        self.store = store
        self.version = version
        self.budget = budget
        self.running: dict[str, Trace] = {}
        self.rows: dict[str, Row] = {}
        self._on_spent = on_spent

    async def begin_trace(self, trace: Trace, ids: Ids) -> None:
        """Store the episode, the task and the headline of a rollout that starts."""
        now = time.time()
        task = task_row(trace.task)
        self.running[trace.id] = trace
        self.store.put_tasks([task])
        self.store.begin_episode(EpisodeRow(id=ids.episode, group=ids.group, started=now))
        await self.store.begin_trace(
            TraceRow(
                id=ids.trace,
                episode=ids.episode,
                group=ids.group,
                role=ids.role,
                task=task.digest,
                task_idx=task.idx,
                task_key=task.key,
                task_name=task.name,
                rollout=ids.rollout,
                attempt=ids.attempt,
                rollout_hash=ids.rollout_hash,
                score_hash=ids.score_hash,
                started=now,
            )
        )

    def append(self, trace_id: str, delta: Delta) -> Awaitable[None]:
        """Store one call; done when it is durable."""
        durable = self.store.append(trace_id, delta)
        if self.budget.bounded:
            reason = self.budget.add(self.running[trace_id])
            if reason is not None:
                self._on_spent(reason)
        return durable

    async def finish_trace(self, trace: Trace) -> None:
        """Store the end of a rollout; an earlier attempt that it replaces is marked so."""
        for earlier in trace.attempts:
            self.store.supersede(earlier["trace"])
            self.rows.pop(earlier["trace"], None)
        if trace.episode_id is not None:
            self.store.end_episode(trace.episode_id)
        await self.store.finish_trace(trace, version=self.version)
        self.rows[trace.id] = trace_row(trace)
        self.running.pop(trace.id, None)
        self.budget.forget(trace.id)
