"""A taskset's own checks without a model: each task's setup, then its gold check."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vfnb.agents.placement import check_placement
from vfnb.runs.tree import EvalConfig
from vfnb.runtimes import make_runtime
from vfnb.tasks import Task, run_setup, run_validate
from vfnb.trace import TaskInfo, Trace
from vfnb.utils.ids import new_id

__all__ = ["Check", "validate"]

CLEAN_UP_S = 10.0  # longest wait for one runtime to stop


@dataclass(slots=True, frozen=True, kw_only=True)
class Check:
    """What the checks of one task found."""

    task: Task[Any, Any, Any]
    gold: bool | None = None
    """Its gold check's verdict; None if it has none, or cannot tell."""
    error: str | None = None
    """Why setup or check failed, `Type: message`."""

    @property
    def failed(self) -> bool:
        """Whether this task is not fit to be run."""
        return self.error is not None or self.gold is False


async def validate(
    config: EvalConfig, tasks: Sequence[Task[Any, Any, Any]], *, only_setup: bool = False
) -> list[Check]:
    """Check tasks, at most `config.concurrency` at a time. Engine loop only.

    Each task has a runtime of its own, as in a rollout.

    Args:
        config: where programs run, and the timeouts.
        tasks: what to check.
        only_setup: leave out the gold checks.
    """
    gate = asyncio.Semaphore(config.concurrency)

    async def one(task: Task[Any, Any, Any]) -> Check:
        async with gate:
            return await _check(config, task, only_setup)

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(one(task)) for task in tasks]
    return [work.result() for work in running]


async def _check(config: EvalConfig, task: Task[Any, Any, Any], only_setup: bool) -> Check:
    limits = config.timeouts.with_task(task.data.timeout)
    try:
        check_placement(task, config.runtime)
        runtime = make_runtime(config.runtime)
        try:
            async with asyncio.timeout(limits.boot):
                await runtime.start()
            data = task.data
            info = TaskInfo(idx=data.idx, name=data.name, key=task.key, data=data.model_dump(mode="json"))
            trace = Trace(id=new_id(), task=info)
            await run_setup(task, trace, runtime, timeout=limits.setup)
            if only_setup:
                return Check(task=task)
            return Check(task=task, gold=await run_validate(task, runtime, timeout=limits.scoring))
        finally:
            async with asyncio.timeout(CLEAN_UP_S):
                await runtime.stop()
            runtime.cleanup()
    except Exception as error:
        return Check(task=task, error=f"{type(error).__name__}: {error}")
