"""What a set of rollouts says: mean reward with its uncertainty, pass@k, and errors apart from zeros."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vfnb.lab.intervals import Estimate, estimate, pass_at_k, variance
from vfnb.lab.rows import Row

__all__ = ["ErrorCount", "PassAtK", "Signal", "Summary", "TaskStat", "per_task", "summarise"]


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """Rollouts that ended by one class of error at one boundary."""

    type: str
    boundary: str
    count: int
    message: str
    """Text of the first one."""


@dataclass(frozen=True, slots=True)
class PassAtK:
    """Mean over tasks of the chance that at least one of `k` rollouts passes."""

    k: int
    value: float
    se: float | None
    """Standard error over tasks; None for a single task."""
    tasks: int
    """Tasks with at least `k` scored rollouts; the others are left out."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One reward or metric over the rollouts that have it."""

    name: str
    kind: str
    """`reward` or `metric`."""
    weight: float | None
    mean: float | None
    se: float | None
    n: int
    missing: int
    """Scored or unscored rollouts without a value of it."""


@dataclass(frozen=True, slots=True)
class TaskStat:
    """The rollouts of one task."""

    task: str
    idx: int | None
    name: str
    n: int
    scored: int
    errors: int
    mean: float | None
    se: float | None
    variance: float | None
    """Sample variance of the reward over its rollouts; None for fewer than two."""
    passed: int
    pass_rate: float | None


@dataclass(frozen=True, slots=True, repr=False)
class Summary:
    """The numbers of a run. Every mean is over the `scored` rollouts only; see `left_out`."""

    n: int
    """Rollouts planned."""
    finished: int
    running: int
    """Planned and not finished: running now, or not yet started."""
    scored: int
    ok: int
    """Finished without error, cancellation or drop."""
    failed: int
    cancelled: int
    dropped: int
    unscored: int
    """Finished in order, but there was no reward to compute."""
    skipped: int
    """Scored 0.0 by rule because a stop or a setting skipped scoring."""
    reused: int
    tasks: int
    reward: Estimate
    level: float
    """Of the confidence intervals."""
    threshold: float
    """A rollout passes if its reward is at least this."""
    pass_at_k: tuple[PassAtK, ...]
    task_variance: float | None
    """Mean over tasks of the variance of the reward within a task."""
    rewards: tuple[Signal, ...]
    metrics: tuple[Signal, ...]
    errors: tuple[ErrorCount, ...]
    """Most frequent first."""
    stops: dict[str, int]
    turns: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    """US dollars over the rollouts whose cost is known; None if none is."""
    cost_unknown: int
    """Finished rollouts with tokens but without a known cost."""
    complete: bool

    @property
    def left_out(self) -> str:
        """Who does not count in the means: `2 errors, 1 cancelled`; `""` if all count."""
        parts = [
            (self.failed, "error" if self.failed == 1 else "errors"),
            (self.cancelled, "cancelled"),
            (self.dropped, "dropped"),
            (self.unscored, "unscored"),
            (self.running, "unfinished"),
        ]
        return ", ".join(f"{count} {what}" for count, what in parts if count)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**asdict(self), "left_out": self.left_out}

    def __repr__(self) -> str:
        from vfnb.lab.summary_twin import headline

        return f"Summary({headline(self)})"

    def __str__(self) -> str:
        from vfnb.lab.summary_twin import summary_text

        return summary_text(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from vfnb.lab.summary_twin import summary_bundle

        return summary_bundle(self)


def summarise(
    rows: Iterable[Row], *, planned: int | None = None, level: float = 0.95, threshold: float = 1.0
) -> Summary:
    """The summary of rollouts; `planned` counts those that have no row yet."""
    rows = list(rows)
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.outcome].append(row)
    scored, finished = groups["scored"], len(rows) - len(groups["running"])
    counted = scored + groups["unscored"]
    n = max(len(rows), planned or 0)
    spent = [row for row in rows if row.tokens_in or row.tokens_out]
    costs = [row.cost for row in rows if row.cost is not None]
    stops: dict[str, int] = defaultdict(int)
    for row in rows:
        if row.stop:
            stops[row.stop] += 1
    within = [stat.variance for stat in per_task(scored, threshold=threshold) if stat.variance is not None]
    return Summary(
        n=n,
        finished=finished,
        running=n - finished,
        scored=len(scored),
        ok=len(counted),
        failed=len(groups["error"]),
        cancelled=len(groups["cancelled"]),
        dropped=len(groups["dropped"]),
        unscored=len(groups["unscored"]),
        skipped=sum(row.skipped for row in scored),
        reused=sum(row.reused for row in rows),
        tasks=len({row.task for row in rows}),
        reward=estimate(_rewards(scored), [row.task for row in scored], level=level),
        level=level,
        threshold=threshold,
        pass_at_k=_pass(scored, threshold),
        task_variance=sum(within) / len(within) if within else None,
        rewards=_signals(counted, "reward"),
        metrics=_signals(counted, "metric"),
        errors=_errors(groups["error"]),
        stops=dict(stops),
        turns=sum(row.turns for row in rows),
        tokens_in=sum(row.tokens_in for row in rows),
        tokens_out=sum(row.tokens_out for row in rows),
        cost=sum(costs) if costs else None,
        cost_unknown=sum(row.cost is None for row in spent),
        complete=finished == n,
    )


def per_task(rows: Iterable[Row], *, threshold: float = 1.0) -> list[TaskStat]:
    """One record per task, in order of first appearance."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.task].append(row)
    stats = []
    for task, members in groups.items():
        values = _rewards(row for row in members if row.outcome == "scored")
        passed = sum(value >= threshold for value in values)
        all_of = estimate(values, [task] * len(values))
        stats.append(
            TaskStat(
                task=task,
                idx=members[0].idx,
                name=next((row.name for row in members if row.name), task),
                n=len(members),
                scored=len(values),
                errors=sum(row.outcome == "error" for row in members),
                mean=all_of.mean,
                se=all_of.se,
                variance=variance(values),
                passed=passed,
                pass_rate=passed / len(values) if values else None,
            )
        )
    return stats


def _rewards(rows: Iterable[Row]) -> list[float]:
    return [row.reward for row in rows if row.reward is not None]


def _pass(scored: Sequence[Row], threshold: float) -> tuple[PassAtK, ...]:
    stats = per_task(scored, threshold=threshold)
    found, k = [], 1
    while k <= max((stat.scored for stat in stats), default=0):
        chances = [pass_at_k(stat.scored, stat.passed, k) for stat in stats if stat.scored >= k]
        over = estimate(chances)
        assert over.mean is not None
        found.append(PassAtK(k, over.mean, over.se, over.n))
        k *= 2
    return tuple(found)


def _signals(rows: Sequence[Row], kind: str) -> tuple[Signal, ...]:
    take: Callable[[Row], Any] = (lambda row: row.rewards) if kind == "reward" else (lambda row: row.metrics)
    values: dict[str, list[float]] = defaultdict(list)
    tasks: dict[str, list[str]] = defaultdict(list)
    weights: dict[str, float] = {}
    for row in rows:
        weights.update(row.weights if kind == "reward" else {})
        for name, value in take(row).items():
            values[name]  # a signal that is None everywhere is still listed
            if value is not None and value == value:
                values[name].append(value)
                tasks[name].append(row.task)
    found = []
    for name, seen in values.items():
        over = estimate(seen, tasks[name])
        found.append(
            Signal(name, kind, weights.get(name), over.mean, over.se, len(seen), len(rows) - len(seen))
        )
    return tuple(found)


def _errors(rows: Sequence[Row]) -> tuple[ErrorCount, ...]:
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.error or "error", row.boundary].append(row)
    counts = [ErrorCount(kind, where, len(rows), rows[0].message) for (kind, where), rows in groups.items()]
    return tuple(sorted(counts, key=lambda count: -count.count))
