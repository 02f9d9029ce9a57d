"""Score a run's stored rollouts anew: a new version beside the old ones, no model client, no runtime."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import structs

from vfnb import loops
from vfnb.errors import ConfigError, StoreError, StoreLocked
from vfnb.lab.intervals import total as exact_sum
from vfnb.lab.rescored import Rescored
from vfnb.lab.sql_levels import matching
from vfnb.store import BEYOND, RunReader, RunStore, ScoreRow, ScoreVersion
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

PATIENCE_S = 20.0
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
    patience_s: float = PATIENCE_S,
) -> Rescored:
    """Make a new version of the scores from version `base`; arguments and errors as for `Run.rescore`.

    Args:
        patience_s: how long to wait for another writer of the run, once everything is scored.
    """
    put = partial(_patiently, write, patience_s)
    started, newest = time.perf_counter(), reader.newest()
    hooks = StoredHooks(StoredTasks(task), rewards, judges)
    given = _weights(weights)
    anew = hooks.whole or rewards is not None or judges is not None
    if not anew and not given:
        raise ConfigError("rescore: give rewards=, task=, judges= or weights=; there is nothing to do")
    if anew and not hooks.whole and not hooks.names and not given:
        raise ConfigError(
            "rescore: the given rewards= or judges= are empty; give a function, or leave them out"
        )
    chosen = None if where is None else set(matching(reader, where, base))
    if chosen is not None and not chosen:
        raise ConfigError(f"where={where!r} chooses no trace")
    title = label if label is not None else _title(hooks, given)
    version = ScoreVersion(label=title, weights=given)
    if not anew:
        return _reweigh(reader, put, version, base, chosen, started)
    scored = reader.query("SELECT DISTINCT kind, name FROM scores WHERE version = ?", (base,))
    new = New(hooks.whole)
    work = Work(reader, base, hooks, new, {name for _, name in scored})
    work.choose(chosen)
    try:
        work.run()
    except BaseException:  # what was asked of judges is kept
        if work.calls:
            _patiently(write, 1.0, lambda store: store.add_judge_calls(work.calls), {})
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
    number = put(lambda store: _store(store, work, version, base), new.values())
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
        notes=[*work.notes(), *late, *_beside(number, newest, base)],
        seconds=time.perf_counter() - started,
        **work.asked(),
    )


def _reweigh(
    reader: RunReader,
    put: Callable[..., Any],
    version: ScoreVersion,
    base: int,
    chosen: set[str] | None,
    started: float,
) -> Rescored:
    """Other weights alone: nothing but the tables of scores is looked at."""
    known = reader.query("SELECT DISTINCT kind, name FROM scores WHERE version = ?", (base,))
    _check_names(version.weights, known)
    newest = reader.newest()
    number, weighed = put(lambda store: store.reweigh(version, base, _key(), chosen), {})
    beyond = "SELECT id FROM traces JOIN totals ON trace = num WHERE totals.version = ? AND totals.error = ?"
    return Rescored(
        reader,
        version=number,
        base=base,
        label=version.label,
        touched=list(version.weights),
        scored=weighed,
        kept=_count(reader, number) - weighed,
        errors={trace: BEYOND for (trace,) in reader.query(beyond, (number, BEYOND))},
        notes=_beside(number, newest, base),
        seconds=time.perf_counter() - started,
    )


def _patiently(
    write: Write, patience_s: float, work: Callable[[RunStore], Awaitable[Any]], scored: Mapping[str, Any]
) -> Any:
    """Write, also if another process holds the run's lock for a while.

    Raises:
        StoreLocked: it does not give it back; what was scored is on the error.
    """
    until, pause = time.monotonic() + patience_s, 0.1
    while True:
        try:
            return write(work)
        except StoreLocked as error:
            if time.monotonic() + pause <= until:
                time.sleep(pause)
                pause = min(2.0, 2 * pause)
                continue
            if not scored:
                raise
            names = list(dict.fromkeys(name for values in scored.values() for name in values))
            again = ", ".join(f"{name!r}: lambda trace: kept[trace.id][{name!r}]" for name in names)
            kept = StoreLocked(
                f"{error} The scores of {len(scored)} traces are on this error: kept = error.scored, and when the "
                f"other has ended, run.rescore({{{again}}})"
            )
            kept.scored = scored
            raise kept from error


def _beside(number: int, newest: int, base: int) -> list[str]:
    """A note on versions that came from elsewhere while this one was made."""
    others = ", ".join(str(one) for one in range(newest + 1, number))
    if not others:
        return []
    return [
        f"version {others} came meanwhile from another process or thread; this one was made from version {base} "
        f"and lacks what is new there: run.use({newest + 1}).rescore(...) again to have both"
    ]


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
            raise ConfigError(f"weights[{name!r:.80}]={_brief(weight)}: give a finite number")
    return {name: float(weight) for name, weight in (weights or {}).items()}


def _brief(value: Any) -> str:
    try:
        return f"{value!r:.60}"
    except ValueError:  # an integer with more digits than Python writes
        return f"an integer of {value.bit_length()} bits"


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
        self._found: dict[str, dict[str, float | None]] = {}
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
            total, error = None, error or BEYOND
        if error is not None:
            self.errors[trace.id] = error
        self._found[trace.id] = {name: value for name, (value, _) in found.rewards.items()} | found.metrics
        self.rows[trace.id] = ScoreRow(
            trace=trace.id,
            reward=total,
            rewards=rewards,
            metrics=metrics,
            score_hash=self._key,
            error=error,
        )

    def values(self) -> Mapping[str, Mapping[str, float | None]]:
        """The new signals by trace."""
        return self._found

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
            beyond = row.error == BEYOND
            total = row.reward if (row.reward is None and not beyond) or not rewards else _total(rewards)
            if total is not None and not math.isfinite(total):
                total, self.errors[trace_id] = None, BEYOND
            error = self.errors.get(trace_id, None if beyond else row.error)
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
        self._own: dict[str, set[str]] = {}
        """Of a trace whose scoring failed: the names that it was to have, with a value or not."""
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
        if self._chosen[trace.id][0] == "error":
            self._own[trace.id] = {*trace.rewards, *trace.metrics}
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
        wanted = set(values)
        if not self.hooks.whole:
            wanted |= self._own.get(trace_id) or self._signals
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
