"""What a new version of the scores changed: per trace, in the mean, and over the pass mark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vfnb.lab.intervals import Estimate, estimate, variance
from vfnb.store.reader import RunReader

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Change", "Rescored"]


@dataclass(frozen=True, slots=True)
class Change:
    """One signal, or the reward, before and after. Means are over the traces that have a value."""

    name: str
    kind: str
    """`reward` (the weighted sum), or `signal`."""
    old: Estimate
    new: Estimate
    change: Estimate
    """Over the traces with both values, paired; its standard error is clustered by task."""
    only_old: int
    """Traces that had a value and have none now."""
    only_new: int
    won: int
    """Traces that pass now and did not."""
    lost: int
    old_spread: float | None
    """Mean over tasks of the variance within a task."""
    new_spread: float | None


class Rescored:
    """A new version of a run's scores beside the one that it was made from. Nothing of either is ever changed.

    Attributes:
        version: the new version's number; `run.use(version)` shows the run with it.
        base: the version that it was made from.
        label: what it was called.
        scored: how many traces were scored anew.
        kept: how many kept their scores because `where=` did not choose them.
        left_out: how many chosen ones could not be scored, by reason.
        errors: trace id -> what failed; such a signal has no value, and never 0.
        notes: remarks, for example on judges that gave no verdict now and then.
        judge_calls, judge_tokens, judge_cost: what judges were asked; US dollars, None if unknown.
        seconds: how long it took.
    """

    def __init__(
        self,
        reader: RunReader,
        *,
        version: int,
        base: int,
        label: str,
        touched: Sequence[str],
        scored: int = 0,
        kept: int = 0,
        left_out: Mapping[str, int] | None = None,
        errors: Mapping[str, str] | None = None,
        notes: Sequence[str] = (),
        judge_calls: int = 0,
        judge_tokens: int = 0,
        judge_cost: float | None = None,
        seconds: float = 0.0,
        threshold: float = 1.0,
    ) -> None:
        self._reader = reader
        self.version = version
        self.base = base
        self.label = label
        self.touched = tuple(touched)
        """The signals that were scored or weighed anew."""
        self.scored = scored
        self.kept = kept
        self.left_out = dict(left_out or {})
        self.errors = dict(errors or {})
        self.notes = tuple(notes)
        self.judge_calls = judge_calls
        self.judge_tokens = judge_tokens
        self.judge_cost = judge_cost
        self.seconds = seconds
        self.threshold = threshold
        """A rollout passes if its reward is at least this."""

    @property
    def run(self) -> str:
        """The run's name."""
        return self._reader.dir.resolve().name

    @cached_property
    def reward(self) -> Change:
        """The weighted sum before and after."""
        rows = self._reader.query(
            "SELECT task_key, old.reward, new.reward FROM traces "
            "LEFT JOIN totals old ON old.trace = num AND old.version = ? "
            "LEFT JOIN totals new ON new.trace = num AND new.version = ? WHERE superseded = 0 ORDER BY num",
            (self.base, self.version),
        )
        return _change("reward", "reward", rows, self.threshold)

    @cached_property
    def signals(self) -> list[Change]:
        """The rewards and metrics that were scored anew, before and after, unweighted."""
        found = []
        for name in self.touched:
            rows = self._reader.query(
                "SELECT task_key, old.value, new.value FROM traces "
                "LEFT JOIN scores old ON old.trace = num AND old.version = ? AND old.name = ? "
                "LEFT JOIN scores new ON new.trace = num AND new.version = ? AND new.name = ? "
                "WHERE superseded = 0 ORDER BY num",
                (self.base, name, self.version, name),
            )
            found.append(_change(name, "signal", rows, self.threshold))
        return found

    def frame(self) -> pd.DataFrame:
        """A row per trace.

        Returns:
            Columns `trace`, `task`, `rollout`, `old`, `new` and `change` of the reward, `error`, and for each
            signal that was scored anew `<name>_old`, `<name>_new`, `<name>_change`. Missing values are NaN.
        """
        import pandas as pd

        from vfnb.lab.frames import rewards, score_column

        old, new = rewards(self._reader, self.base), rewards(self._reader, self.version)
        columns: dict[str, Any] = {
            "task": new["task"],
            "rollout": new["rollout"],
            "old": old["reward"],
            "new": new["reward"],
            "change": new["reward"] - old["reward"],
            "error": pd.Series(self.errors, dtype="string").reindex(new.index),
        }
        for name in self.touched:
            for part, table in (("old", old), ("new", new)):
                column = score_column(name)
                columns[f"{name}_{part}"] = table[column] if column in table else float("nan")
            columns[f"{name}_change"] = columns[f"{name}_new"] - columns[f"{name}_old"]
        made = pd.DataFrame(columns, index=new.index).reset_index()
        made.attrs = {
            "level": "rescored",
            "run": str(self._reader.dir),
            "version": self.version,
            "base": self.base,
        }
        return made

    def flips(self) -> pd.DataFrame:
        """The traces whose order among the rollouts of their task changed, most changed first.

        Returns:
            Columns `trace`, `task`, `rollout`, `old` and `new` reward, `pairs` (rollouts of the task that it passed
            or fell behind; a tie that broke is none), `rank_old` and `rank_new` (1 is the best of its task). Tasks
            with more than 64 rollouts are compared with 64 of them.
        """
        import pandas as pd

        from vfnb.lab.reward_math import groups_of, reordered

        table = self.frame()[["trace", "task", "rollout", "old", "new"]].dropna().reset_index(drop=True)
        before, after = table["old"].to_numpy("float64"), table["new"].to_numpy("float64")
        found = reordered(groups_of(list(table["task"])), before, after).flips
        made = table.iloc[[flip.row for flip in found]].reset_index(drop=True)
        made["pairs"] = pd.Series([flip.pairs for flip in found], dtype="Int64")
        made["rank_old"] = pd.Series([flip.rank_before for flip in found], dtype="Float64")
        made["rank_new"] = pd.Series([flip.rank_after for flip in found], dtype="Float64")
        return made

    def __repr__(self) -> str:
        from vfnb.lab.rescored_twin import rescored_line

        return f"Rescored({rescored_line(self)})"

    def __str__(self) -> str:
        from vfnb.lab.rescored_twin import rescored_text

        return rescored_text(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from vfnb.lab.rescored_twin import rescored_bundle

        return rescored_bundle(self)


def _change(name: str, kind: str, rows: Sequence[tuple[Any, ...]], threshold: float) -> Change:
    both = [(task, a, b) for task, a, b in rows if a is not None and b is not None]
    return Change(
        name=name,
        kind=kind,
        old=_estimate((task, a) for task, a, _ in rows),
        new=_estimate((task, b) for task, _, b in rows),
        change=estimate([b - a for _, a, b in both], [task for task, _, _ in both], shares=False),
        only_old=sum(a is not None and b is None for _, a, b in rows),
        only_new=sum(a is None and b is not None for _, a, b in rows),
        won=sum(a < threshold <= b for _, a, b in both),
        lost=sum(b < threshold <= a for _, a, b in both),
        old_spread=_spread((task, a) for task, a, _ in rows),
        new_spread=_spread((task, b) for task, _, b in rows),
    )


def _estimate(pairs: Any) -> Estimate:
    known = [(task, value) for task, value in pairs if value is not None]
    return estimate([value for _, value in known], [task for task, _ in known])


def _spread(pairs: Any) -> float | None:
    tasks: dict[Any, list[float]] = {}
    for task, value in pairs:
        if value is not None:
            tasks.setdefault(task, []).append(value)
    within = [spread for spread in map(variance, tasks.values()) if spread is not None]
    return sum(within) / len(within) if within else None
