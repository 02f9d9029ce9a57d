"""Take over what an earlier sitting has paid for; score it anew where only the scoring changed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vfnb.agents import ScoringConfig
from vfnb.lab.rows import Row
from vfnb.runs.plan import Unit
from vfnb.runs.rows import stored_rows
from vfnb.store import RunReader, RunStore, ScoreRow, ScoreVersion, TraceHead
from vfnb.tasks import Task, parameters_of, run_finalize, score, unscore
from vfnb.trace import ErrorInfo, Trace, error_info

__all__ = ["Reuse", "take_over"]


_Match = tuple[Unit, TraceHead]
_ANEW = "scoring changed"  # the version of a sitting that took over rollouts with the taskset's own scores


@dataclass(slots=True)
class Reuse:
    """The outcome of the search."""

    todo: list[Unit] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    version: int = 0
    """Score version of this sitting."""
    rescored: int = 0
    tokens: int = 0
    """Spent on these units by earlier sittings, whatever became of the rollouts."""
    cost: float = 0.0
    notes: list[str] = field(default_factory=list)


async def take_over(
    store: RunStore, units: Sequence[Unit], scoring: ScoringConfig, *, keep_cancelled: bool = False
) -> Reuse:
    """Match the plan with the store. Nothing is written before the whole search has ended, but for the end of
    rollouts whose process died. Engine loop only.

    Args:
        keep_cancelled: rollouts that were cancelled stay so; else they run again.
    """

    def usable(head: TraceHead) -> bool:
        return _usable(head) or (keep_cancelled and head.state == "cancelled" and head.superseded != 1)

    found = Reuse()
    with store.reader() as reader:
        await _bury(store, reader)
        wanted = {(unit.rollout_hash, unit.rollout) for unit in units}
        stored = reader.heads()
        heads = [head for head in stored if (head.rollout_hash, head.rollout) in wanted]
        found.notes += _aside(reader, [head for head in stored if head.superseded == 0], wanted)
        found.tokens = sum((h.prompt_tokens or 0) + (h.completion_tokens or 0) for h in heads)
        found.cost = sum(head.cost or 0.0 for head in heads)
        done = {(h.rollout_hash, h.rollout): h for h in heads if usable(h)}
        kept: list[_Match] = []
        for unit in units:
            head = done.get((unit.rollout_hash, unit.rollout))
            if head is None:
                found.todo.append(unit)
            else:
                kept.append((unit, head))
        replaced = [h.id for h in heads if not usable(h) and h.superseded != 1]
        kept = await _scores(store, reader, kept, found, scoring)
        for trace_id in replaced:
            store.supersede(trace_id)
        await store.select(wanted)
        rows = {row.trace: row for row in stored_rows(reader)}
        found.rows = [replace(rows[head.id], reused=True) for _, head in kept]
    return found


def _aside(
    reader: RunReader, shown: Sequence[TraceHead], wanted: Collection[tuple[str | None, int | None]]
) -> list[str]:
    """What the run had and leaves out from now on, because it does not belong to what is asked for."""
    left = {head.id for head in shown if (head.rollout_hash, head.rollout) not in wanted}
    if not left:
        return []
    marked = {str(row[0]) for row in reader.query("SELECT traces.id FROM traces JOIN marks ON trace = num")}
    kept = len(left & marked)
    told = f"{len(left)} stored rollouts" + (f" ({kept} with labels, tags or notes)" if kept else "")
    return [
        f"{told} are of other tasks, prompts, models or settings, or beyond `rollouts`: kept in the folder, but "
        "set aside; the former definition brings them back, another dir= keeps both in sight"
    ]


def _usable(head: TraceHead) -> bool:
    """Whether the model's part of a rollout is complete: it ended in order, or only its scoring failed."""
    if head.superseded == 1:
        return False
    return head.state in ("completed", "stopped", "dropped") or (
        head.state == "error" and head.error_boundary == "scoring"
    )


async def _bury(store: RunStore, reader: RunReader) -> None:
    """Give the rollouts of a process that died their end state; what they recorded is kept."""
    for head in reader.unfinished():
        trace = reader.load_trace(head.id)
        trace.end_state = "cancelled"
        trace.errors.append(
            ErrorInfo(
                type="Interrupted", boundary="run", message="the process that ran it ended before it did"
            )
        )
        store.adopt(head.id)
        await store.finish_trace(trace)


async def _scores(
    store: RunStore, reader: RunReader, kept: Sequence[_Match], found: Reuse, scoring: ScoringConfig
) -> list[_Match]:
    """Bring every rollout taken over to one score version; those that cannot be are put on the list to do."""
    scored = {unit.trace: unit.scored for unit in reader.finished()}
    newest = reader.newest()
    found.version = newest
    own = all(one.kind == "live" or one.label == _ANEW for one in reader.versions()[-1:])

    def version(unit: Unit, head: TraceHead) -> int | None:
        """The newest scores of this kind; none if the scoring failed: it may succeed now."""
        return None if head.state == "error" else scored.get(head.id, {}).get(unit.score_hash)

    if own and all(version(unit, head) == newest for unit, head in kept):
        return list(kept)
    rows: list[ScoreRow] = []
    matched: list[_Match] = []
    for unit, head in kept:
        older = version(unit, head)
        trace = reader.load_trace(head.id, version=older)
        error: ErrorInfo | None = None
        before = _judged(trace)
        if older is None:
            skipped = scoring.skip(unit.task, trace)
            if not skipped and _needs_runtime(unit.task):
                found.todo.append(unit)
                found.notes.append("scoring changed and needs the runtime: these rollouts run anew")
                store.supersede(head.id)
                continue
            error = await _score(unit, trace, reader, skipped)
            found.rescored += 1
        else:
            scoring.skip(unit.task, trace)
        if before != _judged(trace):
            await store.restate(trace)
        rows.append(_score_row(trace, unit.score_hash, error))
        matched.append((unit, head))
        await asyncio.sleep(0)
    found.notes = sorted(set(found.notes))
    made = ScoreVersion(kind="rescore", label=_ANEW) if kept else ScoreVersion(kind="live", label="run anew")
    found.version = await store.add_scores(made, rows)
    return matched


def _judged(trace: Trace) -> tuple[Any, ...]:
    """What a new scoring may change of the stored trace beside its scores."""
    errors = [(error.stage, error.message) for error in trace.errors]
    marks = trace.info.get("unscored"), trace.info.get("scoring_skipped")
    return trace.end_state, list(trace.judge_calls), marks, trace.dropped, errors


async def _score(unit: Unit, trace: Trace, reader: RunReader, skipped: bool) -> ErrorInfo | None:
    """Score a stored trace with the hooks of today; an error leaves it unscored and is returned."""
    unscore(trace)
    trace.end_state = "stopped" if trace.stop_condition else "completed"
    if skipped:
        return None
    stored = reader.state(trace.id)
    trace.state = unit.task.state_type().model_validate(stored) if stored else unit.task.make_state()
    try:
        await run_finalize(unit.task, trace, None)
        await score(unit.task, trace)
    except Exception as failure:
        error = error_info(failure, stage="scoring")
        trace.errors.append(error)
        trace.end_state = "error"
        trace.ok = False
        return error
    if trace.dropped is not None:
        trace.end_state = "dropped"
    trace.ok = trace.dropped is None
    return None


def _needs_runtime(task: Task[Any, Any, Any]) -> bool:
    """Whether a stored trace cannot be scored anew because the code asks for the runtime."""
    functions = [hook.function for kind in ("metric", "reward", "judge") for hook in task.hooks(kind)]
    finalize = getattr(task, "finalize", None)
    if finalize is not None:
        functions.append(finalize)
    return any("runtime" in parameters_of(function) for function in functions)


def _score_row(trace: Trace, score_hash: str, error: ErrorInfo | None) -> ScoreRow:
    return ScoreRow(
        trace=trace.id,
        reward=trace.reward,
        rewards={name: (reward.value, reward.weight) for name, reward in trace.rewards.items()},
        metrics=dict(trace.metrics),
        score_hash=score_hash,
        error=error.message if error else None,
    )
