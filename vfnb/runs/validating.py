"""`vf.validate`: check tasks without a model, before any of them costs anything."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from vfnb import loops
from vfnb.agents import ScoringConfig, Timeouts
from vfnb.agents.placement import check_placement, place
from vfnb.agents.scoring import Artifacts, start_verifier
from vfnb.errors import ConfigError, StageTimeout
from vfnb.runs.source import Source, as_taskset
from vfnb.runs.validation import Check, Validation
from vfnb.runtimes import Runtime, RuntimeConfig, make_runtime, runtime_config
from vfnb.tasks import Task, run_finalize, run_setup, run_validate, score
from vfnb.trace import TaskInfo, Trace
from vfnb.utils.config import build

__all__ = ["validate"]

CLEAN_UP_S = 10.0  # longest wait for one runtime to stop


def validate(
    taskset: Source,
    *,
    runtime: str | RuntimeConfig | dict[str, Any] | None = "subprocess",
    only_setup: bool = False,
    noop: bool = True,
    n: int | None = None,
    concurrency: int = 16,
    timeouts: Timeouts | dict[str, Any] | None = None,
    scoring: ScoringConfig | dict[str, Any] | None = None,
) -> Validation:
    """Check tasks without a model: setup, the gold check, and that an untouched task has not full reward already.

    The gold check is the task's `validate`. The no-op check runs setup, finalize, metrics and rewards as if the
    agent had done nothing; judges are left out, as they cost calls. Both have a box of their own for each task.

    Args:
        taskset: a taskset (object or class), a list of tasks, or the id of an installed taskset.
        runtime: where programs run: `"subprocess"`, `"inprocess"` or a config.
        only_setup: try setup, and nothing else.
        noop: make the no-op check too.
        n: only the first `n` tasks.
        concurrency: tasks under way at a time.
        timeouts: seconds per stage; the gold check has that of scoring.
        scoring: where the no-op check scores, as in a run.

    Raises:
        ConfigError: a setting that cannot work. What does not work for a task is in its check.
        TasksetError: the tasks cannot be loaded, or none is selected.
    """
    for name, value in {"n": 1 if n is None else n, "concurrency": concurrency}.items():
        if not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name}={value!r} must be a whole number, at least 1")
    source = as_taskset(taskset)
    tasks = (source.take(n) if n is not None else source).resolve()
    checker = _Checker(
        runtime=runtime_config(runtime),
        timeouts=build(Timeouts, timeouts, path="timeouts"),
        scoring=build(ScoringConfig, scoring, path="scoring"),
        gold=not only_setup,
        noop=noop and not only_setup,
    )
    checks = loops.engine().run(checker.all(tasks, concurrency))
    return Validation(source.name, checks, only_setup=only_setup)


@dataclass(frozen=True, kw_only=True)
class _Checker:
    """The settings of all checks. Engine loop only."""

    runtime: RuntimeConfig
    timeouts: Timeouts
    scoring: ScoringConfig
    gold: bool
    noop: bool

    async def all(self, tasks: list[Task[Any, Any, Any]], concurrency: int) -> list[Check]:
        gate = asyncio.Semaphore(concurrency)

        async def one(task: Task[Any, Any, Any]) -> Check:
            async with gate:
                start = time.monotonic()
                check = await self._check(task)
                return replace(check, seconds=time.monotonic() - start)

        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(task)) for task in tasks]
        return [work.result() for work in running]

    async def _check(self, task: Task[Any, Any, Any]) -> Check:
        limits = self.timeouts.with_task(task.data.timeout)
        ready = False
        try:
            check_placement(task, self.runtime)
            self.scoring.check(task, self.runtime)
            async with self._set_up(task, limits) as (box, trace):
                ready = True
                gold = await run_validate(task, box, trace, timeout=limits.scoring) if self.gold else None
        except Exception as error:
            return Check(task=task, setup=ready, error=_told(error))
        check = Check(task=task, gold=gold)
        if not self.noop or not task.hooks("reward"):
            return check
        try:
            async with self._set_up(task, limits) as (box, trace):
                reward, full = await self._untouched(task, box, trace, limits)
                return replace(check, noop=reward, full=full)
        except Exception as error:
            return replace(check, noop_error=_told(error))

    @asynccontextmanager
    async def _set_up(
        self, task: Task[Any, Any, Any], limits: Timeouts
    ) -> AsyncIterator[tuple[Runtime, Trace]]:
        """A box in which the task is set up."""
        data = task.data
        info = TaskInfo(idx=data.idx or 0, name=data.name, key=task.key, data=data.model_dump(mode="json"))
        trace = Trace(task=info)
        async with _box(make_runtime(place(self.runtime, data))) as box:
            await _within(box.start(), limits.boot, "boot")
            await run_setup(task, trace, box, timeout=limits.setup)
            yield box, trace

    async def _untouched(
        self, task: Task[Any, Any, Any], box: Runtime, trace: Trace, limits: Timeouts
    ) -> tuple[float | None, float]:
        """Reward, and full reward, of a task on which nobody has worked."""
        await run_finalize(task, trace, box, timeout=limits.finalize)
        hooks = [*task.hooks("metric"), *task.hooks("reward")]
        if self.scoring.placement == "shared":
            scores = await score(task, trace, box, hooks=hooks, timeout=limits.scoring)
        else:
            artifacts = await Artifacts.collect(box, task.data, self.scoring.artifact_limit)
            async with _box(make_runtime(self.scoring.verifier(self.runtime, task.data))) as fresh:
                await _within(start_verifier(fresh, artifacts, task, trace), limits.boot, "boot")
                scores = await score(task, trace, fresh, hooks=hooks, timeout=limits.scoring)
        full = sum(max(0.0, item.weight) for item in scores.rewards.values())
        return scores.reward, full


@asynccontextmanager
async def _box(box: Runtime) -> AsyncIterator[Runtime]:
    try:
        yield box
    finally:
        try:
            async with asyncio.timeout(CLEAN_UP_S):
                await box.stop()
        finally:
            box.cleanup()


async def _within(work: Any, limit: float | None, setting: str) -> None:
    try:
        async with asyncio.timeout(limit):
            await work
    except TimeoutError as error:
        raise StageTimeout(f"took longer than {limit:g} s; raise timeouts.{setting}") from error


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
