"""Score a run's stored rollouts anew: a new version beside the old ones, no model client, no runtime."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from vfnb import loops
from vfnb.errors import ConfigError, StoreError
from vfnb.lab.intervals import total as exact_sum
from vfnb.lab.rescored import Rescored
from vfnb.lab.sql_levels import matching
from vfnb.store import RunReader, RunStore, ScoreRow, ScoreVersion
from vfnb.tasks import Hook, Task, parameters_of
from vfnb.tasks.stored import Found, StoredHooks, StoredTasks, all_plain, score_here, score_there
from vfnb.trace import Trace
from vfnb.types import Usage
from vfnb.utils.collector import calm
from vfnb.utils.config import nearest
from vfnb.utils.ids import new_id

__all__ = ["Write", "rescore"]

Write = Callable[[Callable[[RunStore], Awaitable[Any]]], Any]
"""Calls a function with the run's store and waits for what it returns."""

AT_ONCE = 64  # traces that wait for judges at a time; each endpoint has its own limit beside this
_ENDED = ("completed", "stopped", "dropped")


def rescore(
    reader: RunReader,
    write: Write,
    *,
    base: int,
    rewards: Any = None,
    task: Any = None,
    judges: Any = None,
    weights: Mapping[str, float] | None = None,
    where: str | None = None,
    label: str | None = None,
) -> Rescored:
    """Make a new version of the scores from version `base`; arguments and errors as for `Run.rescore`."""
    started = time.perf_counter()
    hooks = StoredHooks(StoredTasks(task), rewards, judges)
    given = _weights(weights)
    anew = hooks.whole or rewards is not None or judges is not None
    if not anew and not given:
        raise ConfigError("rescore: give rewards=, task=, judges= or weights=; there is nothing to do")
    chosen = None if where is None else set(matching(reader, where, base))
    if chosen is not None and not chosen:
        raise ConfigError(f"where={where!r} chooses no trace")
    title = label if label is not None else _title(hooks, given)
    version = ScoreVersion(label=title, weights=given)
    if not anew:
        return _reweigh(reader, write, version, base, chosen, started)
    scored = reader.query("SELECT DISTINCT kind, name FROM scores WHERE version = ?", (base,))
    new = New(hooks.whole)
    work = Work(reader, base, hooks, new, {name for _, name in scored})
    work.choose(chosen)
    try:
        work.run()
    except BaseException:  # what was asked of judges is kept
        if work.calls:
            write(lambda store: store.add_judge_calls(work.calls))
        raise
    late: list[str] = []
    if given:
        rows = [row for row in reader.scores(base) if chosen is None or row.trace in chosen]
        try:
            new.weigh(given, rows)
        except ConfigError as error:  # what was scored is not lost for it
            late.append(
                f"{error}; no weight was changed, run.rescore(weights=...) does it without scoring again"
            )
            version = ScoreVersion(label=title, weights={})
    number = write(lambda store: _store(store, work, version, base))
    return Rescored(
        reader,
        version=number,
        base=base,
        label=title,
        touched=list(new.touched),
        scored=work.scored,
        kept=_count(reader, number) - len(new.rows),
        left_out=work.left_out,
        errors=new.errors | work.damaged,
        notes=[*work.notes(), *late],
        seconds=time.perf_counter() - started,
        **work.asked(),
    )


def _reweigh(
    reader: RunReader,
    write: Write,
    version: ScoreVersion,
    base: int,
    chosen: set[str] | None,
    started: float,
) -> Rescored:
    """Other weights alone: nothing but the tables of scores is looked at."""
    known = reader.query("SELECT DISTINCT kind, name FROM scores WHERE version = ?", (base,))
    _check_names(version.weights, known)
    number, weighed = write(lambda store: store.reweigh(version, base, _key(), chosen))
    return Rescored(
        reader,
        version=number,
        base=base,
        label=version.label,
        touched=list(version.weights),
        scored=weighed,
        kept=_count(reader, number) - weighed,
        seconds=time.perf_counter() - started,
    )


def _count(reader: RunReader, version: int) -> int:
    """How many traces a version has scores of."""
    return int(reader.query("SELECT count(*) FROM totals WHERE version = ?", (version,))[0][0])


def _key() -> str:
    """A score hash that no scoring of a taskset has."""
    return f"rescored-{new_id()}"


def _weights(weights: Mapping[str, float] | None) -> dict[str, float]:
    if weights is not None and not isinstance(weights, Mapping):
        raise ConfigError(f"weights= takes a dict of weights by name, got {weights!r:.80}")
    for name, weight in (weights or {}).items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not -1e300 < weight < 1e300:
            raise ConfigError(f"weights[{name!r}]={weight!r}: give a finite number")
    return {name: float(weight) for name, weight in (weights or {}).items()}


def _title(hooks: StoredHooks, weights: Mapping[str, float]) -> str:
    kind = hooks.tasks.kind
    parts = [kind.__name__ if kind is not None and hooks.whole else "", *hooks.names]
    parts += [f"{name} x {weight:g}" for name, weight in weights.items()]
    return ", ".join(part for part in parts if part)


async def _store(store: RunStore, work: Work, version: ScoreVersion, base: int) -> int:
    """Write the version, the calls of judges, and the end of traces whose scoring has now succeeded."""
    for trace in work.mended:
        store.restate(trace)
    if work.calls:
        store.add_judge_calls(work.calls)
    return await store.add_scores(version, list(work.new.rows.values()), base=base)


class New:
    """The scores of the new version that differ from the base.

    Args:
        whole: signals that are not scored anew are dropped.
    """

    def __init__(self, whole: bool) -> None:
        self.rows: dict[str, ScoreRow] = {}
        self.touched: dict[str, None] = {}
        """Names of the signals that were scored or weighed anew."""
        self.errors: dict[str, str] = {}
        self._whole = whole
        self._key = _key()

    def take(self, trace: Trace, found: Found) -> None:
        """Add what was found for a trace, which has the scores of the base, replaced where there are new ones."""
        rewards = {
            name: (one.value, one.weight)
            for name, one in trace.rewards.items()
            if not self._whole and name not in found.metrics
        }
        metrics = {
            name: value
            for name, value in trace.metrics.items()
            if not self._whole and name not in found.rewards
        }
        rewards |= found.rewards
        metrics |= found.metrics
        self.touched |= dict.fromkeys((*found.rewards, *found.metrics))
        error = "; ".join(one.message for one in found.errors) or None
        total = None if trace.dropped is not None else _total(rewards)
        if total is not None and not math.isfinite(total):
            total, error = None, error or "the weighted sum of its rewards is no finite number"
        if error is not None:
            self.errors[trace.id] = error
        self.rows[trace.id] = ScoreRow(
            trace=trace.id,
            reward=total,
            rewards=rewards,
            metrics=metrics,
            score_hash=self._key,
            error=error,
        )

    def weigh(self, weights: Mapping[str, float], base: Sequence[ScoreRow]) -> None:
        """Give rewards other weights, those of the base too that were not scored anew.

        Raises:
            ConfigError: no trace has a reward of that name.
        """
        rows = {**{row.trace: row for row in base}, **self.rows}
        known = [("reward", name) for row in rows.values() for name in row.rewards]
        known += [("metric", name) for row in rows.values() for name in row.metrics]
        _check_names(weights, known)
        for trace_id, row in rows.items():
            rewards = {
                name: (value, weights.get(name, weight)) for name, (value, weight) in row.rewards.items()
            }
            # Without a sum before it has none now: the rollout failed, or a value is missing.
            total = row.reward if row.reward is None or not rewards else _total(rewards)
            if total is not None and not math.isfinite(total):
                total, self.errors[trace_id] = None, "the weighted sum of its rewards is no finite number"
            error = self.errors.get(trace_id, row.error)
            self.rows[trace_id] = structs.replace(
                row, reward=total, rewards=rewards, score_hash=self._key, error=error
            )
        self.touched |= dict.fromkeys(weights)


def _check_names(weights: Mapping[str, float], known: Sequence[tuple[str, str]]) -> None:
    rewards = dict.fromkeys(name for kind, name in known if kind == "reward")
    for name in weights:
        if name in rewards:
            continue
        if ("metric", name) in known:
            fix = f"it is a metric; make a reward of it: rewards={{'{name}_reward': lambda trace: ...}}"
        else:
            match = nearest(name, rewards)
            fix = f"did you mean {match!r}?" if match else f"there are {', '.join(rewards) or 'none'}"
        raise ConfigError(f"weights: there is no reward {name!r}; {fix}")


def _total(rewards: Mapping[str, tuple[float | None, float]]) -> float | None:
    """As `Trace.reward`: None without rewards, or where one has no value."""
    if not rewards or any(value is None for value, _ in rewards.values()):
        return None
    return exact_sum(value * weight for value, weight in rewards.values() if value is not None)


class Work:
    """Scoring the chosen traces of a run."""

    def __init__(self, reader: RunReader, base: int, hooks: StoredHooks, new: New, signals: set[str]) -> None:
        self.reader = reader
        self._signals = signals
        """Names of what the base version has; a trace whose scoring failed lacks some."""
        self.base = base
        self.hooks = hooks
        self.new = new
        self.mended: list[Trace] = []
        """Traces that only their scoring had failed, and which have scores now."""
        self.left_out: Counter[str] = Counter()
        self.damaged: dict[str, str] = {}
        self.calls: dict[str, list[Any]] = {}
        """New calls of judges as JSON values, by trace."""
        self.usage: list[Usage] = []
        self.silent = 0
        self.scored = 0
        self._chosen: dict[str, tuple[str, bytes]] = {}
        """State and task of each trace to score."""
        self._tasks: dict[bytes, tuple[Task[Any, Any, Any], list[Hook]]] = {}

    def choose(self, wanted: set[str] | None) -> None:
        """Find the traces to score and refuse what cannot be, before anything runs.

        Raises:
            ConfigError: none has ended in order, or a hook needs the runtime.
            TasksetError: a stored record does not fit the task class.
        """
        sql = "SELECT id, state, error_boundary, task FROM traces WHERE superseded = 0 ORDER BY num"
        for trace_id, state, boundary, digest in self.reader.query(sql):
            if wanted is not None and trace_id not in wanted:
                continue
            if state in _ENDED or (state == "error" and boundary == "scoring"):
                self._chosen[trace_id] = state, digest
            else:
                self.left_out["running" if state == "running" else f"ended as {state}"] += 1
        if not self._chosen:
            raise ConfigError("no trace of those chosen has ended in order; there is nothing to score")
        records = {row.digest: row.data for row in self.reader.tasks()}
        times = Counter(digest for _, digest in self._chosen.values())
        need: Counter[str] = Counter()
        for digest, count in times.items():
            task = self.hooks.tasks.make(json.loads(records.get(digest, b"{}")))
            hooks = self.hooks.of(task)
            self._tasks[digest] = task, hooks
            need.update(dict.fromkeys(_need_runtime(hooks), count))
        if need:
            told = ", ".join(f"{name} ({n} traces)" for name, n in need.items())
            raise ConfigError(
                f"the box of a stored rollout is gone, and these take `runtime`: {told}. Score the others by "
                "rewards=[...]; what the box had goes into trace.info or the state, by the task's `finalize`"
            )

    def run(self) -> None:
        """Score them."""
        if not all(all_plain(hooks, self.hooks.repeats) for _, hooks in self._tasks.values()):
            loops.engine().run(self._ask())
            return
        with calm():
            for trace in self._traces():
                task, hooks = self._prepared(trace)
                self._take(trace, score_here(task, trace, hooks))

    def _traces(self) -> Iterator[Trace]:
        for trace_id, trace in self.reader.read_traces(self._chosen, version=self.base):
            if isinstance(trace, StoreError):
                self.left_out["damaged"] += 1
                self.damaged[trace_id] = str(trace)
            elif trace.info.get("scoring_skipped"):
                self.left_out["a stop or a setting skips their scoring"] += 1
            else:
                yield trace

    def _prepared(self, trace: Trace) -> tuple[Task[Any, Any, Any], list[Hook]]:
        task, hooks = self._tasks[self._chosen[trace.id][1]]
        trace.state = self.hooks.tasks.state(trace.state)
        if self.hooks.whole:
            trace.rewards, trace.metrics = {}, {}
        return task, hooks

    async def _ask(self) -> None:
        """Score by functions that wait for something, many traces at a time."""
        traces = self._traces()
        room = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            while True:
                await room.acquire()
                trace = await asyncio.to_thread(next, traces, None)
                if trace is None:
                    break
                group.create_task(self._one(trace)).add_done_callback(lambda _: room.release())

    async def _one(self, trace: Trace) -> None:
        before = len(trace.judge_calls)
        task, hooks = self._prepared(trace)
        try:
            found = await score_there(task, trace, hooks, self.hooks.repeats)
        finally:
            new = trace.judge_calls[before:]
            if new:
                self.calls[trace.id] = [call.model_dump(mode="json") for call in new]
                self.usage += [call.usage for call in new if call.usage is not None]
        self._take(trace, found)

    def _take(self, trace: Trace, found: Found) -> None:
        self.scored += 1
        self.silent += found.silent
        self.new.take(trace, found)
        if self._chosen[trace.id][0] == "error" and not found.errors and self._whole(trace.id):
            again = self.reader.load_trace(trace.id)
            again.end_state = "stopped" if again.stop_condition else "completed"
            again.ok = True
            self.mended.append(again)

    def _whole(self, trace_id: str) -> bool:
        """Whether a trace whose scoring had failed now has all that others have: then the failure is mended."""
        row = self.new.rows[trace_id]
        values = {**{name: value for name, (value, _) in row.rewards.items()}, **row.metrics}
        wanted = set(values) if self.hooks.whole else self._signals | set(values)
        return row.reward is not None and all(values.get(name) is not None for name in wanted)

    def notes(self) -> list[str]:
        """What a reader of the result should know."""
        if not self.silent:
            return []
        asked = sum(len(calls) for calls in self.calls.values())
        return [
            f"{self.silent} of {asked} answers of judges gave no verdict; their traces have the mean of the others"
        ]

    def asked(self) -> dict[str, Any]:
        """How much the judges were asked."""
        costs = [usage.cost for usage in self.usage if usage.cost is not None]
        return {
            "judge_calls": sum(len(calls) for calls in self.calls.values()),
            "judge_tokens": sum(usage.prompt_tokens + usage.completion_tokens for usage in self.usage),
            "judge_cost": math.fsum(costs) if costs else None,
        }


def _need_runtime(hooks: Sequence[Hook]) -> list[str]:
    return [hook.spec.name for hook in hooks if "runtime" in parameters_of(hook.function)]
