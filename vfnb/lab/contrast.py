"""Two settings on the same tasks: the difference, how sure it is, and what could have been found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfnb.lab.intervals import mean_of, t_quantile, variance
from vfnb.lab.paired import (
    bca,
    benjamini_hochberg,
    detectable,
    holm,
    mcnemar,
    newcombe,
    sign_flip,
    typical_values,
)
from vfnb.lab.words import number

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CORRECTIONS", "Contrast", "Contrasts", "contrast"]

CORRECTIONS: dict[str, Callable[[Sequence[float]], list[float]]] = {
    "holm": holm,
    "bh": benjamini_hochberg,
    "none": list,
}
FEW_TASKS = 20
"""Below this the warning says that the data are few, whatever they show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Setting `b` against setting `a`, over the tasks that have a value under both."""

    a: str
    b: str
    tasks: int
    """Tasks with a value under both."""
    mean_a: float | None
    """Mean over these tasks of the mean of their rollouts."""
    mean_b: float | None
    difference: float | None
    """`mean_b - mean_a`."""
    low: float | None
    high: float | None
    """Interval of the difference; None if the data cannot tell."""
    interval: str
    """`newcombe`, `exact` (typical values), `bca` (bootstrap), `t`, or `""`."""
    p: float | None
    """Two-sided; None for fewer than two tasks."""
    p_adjusted: float | None
    """Corrected for the number of contrasts that were asked for together."""
    test: str
    """`mcnemar`, `sign-flip` (exact), `sign-flip, sampled`, or `""`."""
    better: int
    """Tasks on which `b` is higher."""
    equal: int
    worse: int
    detectable: float | None
    """MDE: the smallest true difference that a test at 1 - `level` finds with a chance of 80 %."""
    unpaired: int = 0
    """Tasks with a value under one setting only; they do not count."""
    warnings: tuple[str, ...] = ()


def contrast(
    a: str,
    b: str,
    values_a: Mapping[str, Sequence[float]],
    values_b: Mapping[str, Sequence[float]],
    *,
    level: float = 0.95,
) -> Contrast:
    """Compare two settings, paired by task.

    The unit is the task: the mean of its rollouts. If all these means are 0 or 1 (one rollout of a 0/1 reward),
    the test is McNemar's and the interval Newcombe's. Else the test flips the signs of the differences, and the
    interval is its exact inverse up to 16 tasks and the BCa bootstrap over tasks beyond; below 6 tasks, where no
    exact one exists, it is the t interval.

    Args:
        a: name of the setting compared with.
        b: name of the other.
        values_a: the values of its rollouts by task.
        values_b: likewise.
        level: of the interval.
    """
    shared = [task for task in values_a if values_a[task] and values_b.get(task)]
    known = {task for values in (values_a, values_b) for task in values if values[task]}
    before = [mean_of(values_a[task]) for task in shared]
    after = [mean_of(values_b[task]) for task in shared]
    gaps = [_plain(y - x) for x, y in zip(before, after, strict=True)]
    n = len(shared)
    low, high, interval, p, test = _judged(before, after, gaps, level)
    found = Contrast(
        a=a,
        b=b,
        tasks=n,
        mean_a=_mean(before),
        mean_b=_mean(after),
        difference=_plain(_mean(gaps) or 0.0) if gaps else None,
        low=low,
        high=high,
        interval=interval,
        p=p,
        p_adjusted=p,
        test=test,
        better=sum(gap > 0 for gap in gaps),
        equal=sum(gap == 0 for gap in gaps),
        worse=sum(gap < 0 for gap in gaps),
        detectable=detectable(gaps, alpha=1 - level),
        unpaired=len(known) - n,
    )
    return replace(found, warnings=_warnings(found, gaps, level))


def _plain(gap: float) -> float:
    """Without the last bits, in which means of other counts of rollouts differ though they are equal."""
    return round(gap, 12) + 0.0


def _mean(values: Sequence[float]) -> float | None:
    return mean_of(values) if values else None


def _judged(
    before: Sequence[float], after: Sequence[float], gaps: Sequence[float], level: float
) -> tuple[float | None, float | None, str, float | None, str]:
    n = len(gaps)
    if n < 2:
        return None, None, "", None, ""
    if all(value in (0, 1) for value in (*before, *after)):
        both = sum(x == y == 1 for x, y in zip(before, after, strict=True))
        gained, lost = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
        low, high = newcombe(both, gained, lost, n - both - gained - lost, level=level)
        return low, high, "newcombe", mcnemar(gained, lost), "mcnemar"
    p, exact = sign_flip(gaps)
    test = "sign-flip" if exact else "sign-flip, sampled"
    spread = variance(gaps)
    if not spread or min(gaps) == max(gaps):
        return None, None, "", p, test
    if (found := typical_values(gaps, level=level)) is not None:
        return *found, "exact", p, test
    if n >= 6 and (found := bca(gaps, level=level)) is not None:
        return *found, "bca", p, test
    middle, half = mean_of(gaps), t_quantile(0.5 + level / 2, n - 1) * math.sqrt(spread / n)
    return middle - half, middle + half, "t", p, test


def _warnings(found: Contrast, gaps: Sequence[float], level: float) -> tuple[str, ...]:
    alpha = 1 - level
    if found.tasks < 2:
        return (f"{found.tasks} tasks in common: nothing to compare",)
    told = []
    least = 2 / 2**found.tasks
    if least > alpha:
        told.append(
            f"only {found.tasks} tasks: no result could be significant at {alpha:.2g} (least p {number(least)})"
        )
    elif found.tasks < FEW_TASKS:
        told.append(f"only {found.tasks} tasks: intervals are rough and only large differences show")
    if found.p is not None and found.p > alpha and found.detectable is not None:
        told.append(
            "not shown to differ is not shown to be equal: differences below the MDE are mostly missed"
        )
    if not found.interval:
        told.append("all tasks differ by the same amount: no interval")
    if found.unpaired:
        told.append(f"{found.unpaired} tasks have a value under one setting only and are left out")
    return tuple(told)


@dataclass(frozen=True)
class Contrasts:
    """What `compare` found: a sequence of `Contrast`, with their table in text, html, markdown and LaTeX."""

    items: tuple[Contrast, ...]
    y: str
    level: float
    correction: str
    notes: tuple[str, ...] = field(default=())
    """What holds for all, such as rollouts without a value."""

    @classmethod
    def of(
        cls, items: Sequence[Contrast], *, y: str, level: float, correction: str, notes: Sequence[str] = ()
    ) -> Contrasts:
        """Contrasts that were asked for together, with their p values corrected for that."""
        tested = [item.p for item in items if item.p is not None]
        adjusted = iter(CORRECTIONS[correction](tested))
        done = [replace(item, p_adjusted=next(adjusted) if item.p is not None else None) for item in items]
        return cls(tuple(done), y, level, correction if len(tested) > 1 else "none", tuple(notes))

    def __getitem__(self, place: int) -> Contrast:
        return self.items[place]

    def __iter__(self) -> Iterator[Contrast]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def frame(self) -> pd.DataFrame:
        """A row per contrast, with the fields of `Contrast` as columns."""
        import pandas as pd

        texts = ("a", "b", "interval", "test", "warnings")
        counts = ("tasks", "better", "equal", "worse", "unpaired")
        rows = [asdict(item) | {"warnings": "; ".join(item.warnings)} for item in self.items]
        made = pd.DataFrame(rows, columns=list(Contrast.__dataclass_fields__))
        kinds = {
            name: "string" if name in texts else "Int64" if name in counts else "Float64" for name in made
        }
        return made.astype(kinds)

    @property
    def words(self) -> list[str]:
        """A sentence for each contrast: which is higher, by how much, with what certainty."""
        from vfnb.lab.contrast_twin import verdict

        return [verdict(item, self.level) for item in self.items]

    @property
    def markdown(self) -> str:
        """The table in markdown."""
        from vfnb.lab.contrast_twin import grid

        return grid(self).markdown

    @property
    def latex(self) -> str:
        """The table in LaTeX, for the package booktabs."""
        from vfnb.lab.contrast_twin import grid

        return grid(self).latex

    def save(self, path: str | Path) -> Path:
        """Write the table as `.txt`, `.md`, `.html` or `.tex`.

        Raises:
            ConfigError: another suffix.
        """
        from vfnb.lab.contrast_twin import grid

        return grid(self).save(path)

    def __repr__(self) -> str:
        return f"<{len(self)} contrasts of {self.y}>"

    def __str__(self) -> str:
        from vfnb.lab.contrast_twin import contrasts_text

        return contrasts_text(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from vfnb.lab.contrast_twin import contrasts_bundle

        return contrasts_bundle(self)
