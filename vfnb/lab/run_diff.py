"""Two runs of the same tasks side by side: the paired change of the reward, and the tasks that flipped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from vfnb.lab.diff import Diff, DiffKind, DiffRow
from vfnb.lab.intervals import Estimate, estimate
from vfnb.lab.rows import Row
from vfnb.lab.stats import TaskStat, per_task

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RunDiff", "diff_runs"]

TIE = 1e-9  # means that differ by less are equal: they are sums of the same numbers


class RunDiff(Diff):
    """Two runs, matched by task key. `rows` has one per task, its sides are mean rewards.

    Attributes:
        threshold: a rollout passes if its reward is at least this; a task is solved if half of its rollouts pass.
        config: what differs between the settings of the runs.
    """

    def __init__(
        self,
        left: str,
        right: str,
        rows: Sequence[DiffRow],
        *,
        threshold: float,
        config: Diff,
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__("runs", left, right, rows, notes)
        self.threshold = threshold
        self.config = config

    @property
    def changes(self) -> dict[str, float]:
        """Right minus left by task, of the tasks with a reward on both sides."""
        return {
            row.key: row.right - row.left
            for row in self.rows
            if row.left is not None and row.right is not None
        }

    @cached_property
    def change(self) -> Estimate:
        """Mean over the matched tasks of the change, with its paired standard error and interval."""
        return estimate(list(self.changes.values()), list(self.changes), shares=False)

    @property
    def wins(self) -> int:
        """Tasks that are better on the right."""
        return sum(change > TIE for change in self.changes.values())

    @property
    def losses(self) -> int:
        """Tasks that are worse on the right."""
        return sum(change < -TIE for change in self.changes.values())

    @property
    def ties(self) -> int:
        """Tasks with the same mean."""
        return len(self.changes) - self.wins - self.losses

    @property
    def flipped(self) -> list[str]:
        """Tasks that one run solves and the other does not."""
        return [row.key for row in self.rows if row.facts["flipped"]]

    @property
    def unmatched(self) -> list[str]:
        """Tasks that only one run has."""
        return [row.key for row in self.rows if row.kind in ("left", "right")]

    @property
    def unscored(self) -> list[str]:
        """Tasks of both runs without a reward in one of them."""
        both = [row for row in self.rows if row.kind not in ("left", "right")]
        return [row.key for row in both if row.left is None or row.right is None]

    def frame(self) -> pd.DataFrame:
        """A row per task.

        Returns:
            `task`, `name`, `kind`, mean rewards `left` and `right`, `change`, numbers of scored and of passed
            rollouts, `flipped`.
        """
        import pandas as pd

        from vfnb.lab.typed import typed

        rows, changes = self.rows, self.changes
        columns = {
            "task": typed("text", [row.key for row in rows]),
            "name": typed("text", [row.facts["name"] for row in rows]),
            "kind": typed("text", [row.kind for row in rows]),
            "left": typed("float", [row.left for row in rows]),
            "right": typed("float", [row.right for row in rows]),
            "change": typed("float", [changes.get(row.key) for row in rows]),
        }
        for name in ("left_scored", "right_scored", "left_passed", "right_passed"):
            columns[name] = typed("int", [row.facts[name] for row in rows])
        return pd.DataFrame(columns | {"flipped": typed("bool", [row.facts["flipped"] for row in rows])})

    def __repr__(self) -> str:
        return f"Diff(runs: {self.wins} wins, {self.ties} ties, {self.losses} losses)"


def diff_runs(
    left: Iterable[Row],
    right: Iterable[Row],
    names: tuple[str, str],
    config: Diff,
    *,
    threshold: float = 1.0,
    notes: Sequence[str] = (),
) -> RunDiff:
    """Two runs by the records of their rollouts, matched by task; rows in the order of the tasks."""
    a = {stat.task: stat for stat in per_task(left, threshold=threshold)}
    b = {stat.task: stat for stat in per_task(right, threshold=threshold)}
    known = sorted({**b, **a}.values(), key=lambda stat: (stat.idx is None, stat.idx or 0, stat.task))
    rows = [_row(stat.task, a.get(stat.task), b.get(stat.task)) for stat in known]
    return RunDiff(*names, rows, threshold=threshold, config=config, notes=notes)


def _row(task: str, a: TaskStat | None, b: TaskStat | None) -> DiffRow:
    kind: DiffKind = "left" if b is None else "right" if a is None else "changed"
    left, right = (None if stat is None else stat.mean for stat in (a, b))
    if left is not None and right is not None and abs(right - left) <= TIE:
        kind = "same"
    solved = [None if stat is None or stat.pass_rate is None else stat.pass_rate >= 0.5 for stat in (a, b)]
    facts = {
        "name": (a or b).name if (a or b) is not None else task,  # type: ignore[union-attr]
        "left_scored": a.scored if a else None,
        "right_scored": b.scored if b else None,
        "left_passed": a.passed if a else None,
        "right_passed": b.passed if b else None,
        "flipped": None not in solved and solved[0] != solved[1],
    }
    return DiffRow(kind, left, right, key=task, facts=facts)
