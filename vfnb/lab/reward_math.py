"""What other weights and thresholds would do to the rewards of a run: plain numpy over the stored scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Flip",
    "Outcome",
    "Scores",
    "Suspect",
    "correlations",
    "groups_of",
    "histogram",
    "outcome",
    "ranks",
    "reordered",
    "rounded",
    "suspects",
]

Values = NDArray[np.float64]

PAIRED = 64
"""Rollouts of one task whose pairs are compared; of a task with more, this many spread over all of them."""
_SAME = 1e-12
_BINS = 24
_FEW = 12  # with fewer traces a correlation says nothing
_STRONG = 0.6  # a rank correlation from which a signal is said to follow another
_AGAINST = -0.3


@dataclass(frozen=True)
class Scores:
    """The stored signals of the rollouts that have a reward."""

    ids: list[str]
    tasks: list[str]
    rollouts: list[int]
    reward: Values
    """float[n]: the stored reward."""
    names: list[str]
    """The k rewards."""
    weights: Values
    """float[k]: the weight that most traces have."""
    values: Values
    """float[n, k], unweighted, 0 where a trace has no such reward."""
    each: Values
    """float[n, k]: the stored weight of each value."""
    metrics: dict[str, Values] = field(default_factory=dict)
    """float[n] by name, NaN where missing; also `tokens_out`, `turns` and `time_s`."""
    left_out: int = 0
    """Rollouts without a reward."""
    titles: dict[str, str] = field(default_factory=dict)
    """The tasks' names for people, by key."""

    @cached_property
    def groups(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Rows by task, tasks of one size together: int[g, size], and which of a task each one is compared with."""
        return groups_of(self.tasks)

    def edited(self, thresholds: Mapping[str, float]) -> Values:
        """float[n, k]: a signal with a threshold is 1 from there on, else 0."""
        if not thresholds:
            return self.values
        values = self.values.copy()
        for name, least in thresholds.items():
            column = self.names.index(name)
            values[:, column] = values[:, column] >= least
        return values


@dataclass(frozen=True, slots=True)
class Flip:
    """A trace whose order among the rollouts of its task changed."""

    row: int
    pairs: int
    """Rollouts of the same task that it passed or fell behind."""
    rank_before: float
    """1 is the best of its task; ties share their mean."""
    rank_after: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """Rewards under other weights."""

    reward: Values
    flips: list[Flip]
    """By number of pairs, then by change of the reward."""
    pairs: int
    """Pairs of rollouts of one task that were compared."""
    flipped: int
    """Of these, in another order than before; a tie that broke, or a difference that became a tie, is none."""


def outcome(scores: Scores, weights: Mapping[str, float], thresholds: Mapping[str, float]) -> Outcome:
    """The rewards with some weights and thresholds changed, and what that does to the order within tasks.

    Raises:
        ValueError: a name is no reward.
    """
    for name in [*weights, *thresholds]:
        if name not in scores.names:
            raise ValueError(f"there is no reward {name!r}; there are {', '.join(scores.names) or 'none'}")
    used = scores.each.copy()
    for name, weight in weights.items():
        used[:, scores.names.index(name)] = weight
    after = (scores.edited(thresholds) * used).sum(1)
    return reordered(scores.groups, scores.reward, after)


def reordered(
    groups: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]], before: Values, after: Values
) -> Outcome:
    """What other rewards do to the order within tasks; `groups` as in `Scores`."""
    count = np.zeros(len(before), np.int64)
    rank = np.zeros((2, len(before)))
    pairs = 0
    for rows, few in groups:
        # int8[group, i, j]: the sign of each difference, before and after
        old, new = _signs(before[rows], few), _signs(after[rows], few)
        count[rows] += (old * new < 0).sum(2)
        pairs += rows.shape[0] * len(few) * (rows.shape[1] - 1) // 2
        for which, (side, signs) in enumerate(((before, old), (after, new))):
            whole = len(few) == rows.shape[1]
            rank[which][rows] = _places(signs) if whole else [len(row) + 1 - ranks(side[row]) for row in rows]
    flipped = int(count.sum() // 2)
    rows = np.flatnonzero(count)
    order = rows[np.lexsort((-np.abs(after - before)[rows], -count[rows]))]
    flips = [Flip(int(row), int(count[row]), float(rank[0][row]), float(rank[1][row])) for row in order]
    return Outcome(after, flips, pairs, flipped)


def _signs(values: Values, few: NDArray[np.int64]) -> NDArray[np.int8]:
    """int8[group, i, j]: the sign of `values[i] - values[few[j]]`; differences of rounding are none."""
    gap: Values = values[:, :, None] - values[:, None, few]
    return (gap > _SAME).astype(np.int8) - (gap < -_SAME)


def _places(signs: NDArray[np.int8]) -> Values:
    """float[g, n]: places within each row, 1 for the highest, ties share their mean."""
    below, same = (signs < 0).sum(2), (signs == 0).sum(2)
    places: Values = below + (same + 1) / 2
    return places


def groups_of(tasks: Sequence[str]) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """As `Scores.groups`."""
    _, code, sizes = np.unique(np.asarray(tasks, object).astype(str), return_inverse=True, return_counts=True)
    order = np.argsort(code, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    found = []
    for size in np.unique(sizes):
        if size < 1:
            continue
        rows = order[starts[sizes == size][:, None] + np.arange(size)]
        few = np.arange(size) if size <= PAIRED else np.linspace(0, size - 1, PAIRED).astype(np.int64)
        step = max(1, 4_000_000 // int(size * len(few)))
        found += [(rows[at : at + step], few) for at in range(0, len(rows), step)]
    return found


def ranks(values: Values) -> Values:
    """float[n]: 1 for the lowest; ties share their mean."""
    _, code, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    shared: Values = (ends - (counts - 1) / 2)[code]
    return shared


def histogram(before: Values, after: Values) -> tuple[Values, NDArray[np.int64], NDArray[np.int64]]:
    """Edges and counts of both over one range."""
    both = np.concatenate([before, after])
    if not len(both):
        return np.array([0.0, 1.0]), np.zeros(1, np.int64), np.zeros(1, np.int64)
    low, high = float(both.min()), float(both.max())
    edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)
    return edges, np.histogram(before, edges)[0], np.histogram(after, edges)[0]


def correlations(columns: Mapping[str, Values]) -> Values:
    """float[k, k]: Spearman's rank correlation of each pair, over the rows where both are known; NaN where one
    of them does not vary."""
    names = list(columns)
    made = np.full((len(names), len(names)), np.nan)
    complete = [not np.isnan(columns[name]).any() for name in names]
    ranked = [ranks(columns[name]) if whole else None for name, whole in zip(names, complete, strict=True)]
    for i, first in enumerate(names):
        for j in range(i, len(names)):
            a, b = ranked[i], ranked[j]
            if a is None or b is None:
                known = ~np.isnan(columns[first]) & ~np.isnan(columns[names[j]])
                a, b = ranks(columns[first][known]), ranks(columns[names[j]][known])
            made[i, j] = made[j, i] = _pearson(a, b)
    return made


def _pearson(a: Values, b: Values) -> float:
    if len(a) < 3:
        return float("nan")
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else float("nan")


@dataclass(frozen=True, slots=True)
class Suspect:
    """A reward that may be gamed, and the traces that show it best."""

    name: str
    why: str
    rows: list[int]


def suspects(scores: Scores, weights: Mapping[str, float], thresholds: Mapping[str, float]) -> list[Suspect]:
    """Rewards to look at, by four simple rules; each is a hint and no proof.

    1. length: the rank correlation with `tokens_out` is 0.6 or more.
    2. against the rest: the rank correlation with the sum of the other weighted rewards is -0.3 or less: it rises
       while the others fall.
    3. far out: some of its values lie above Tukey's outer fence, the upper quartile plus three interquartile ranges
       (Tukey, Exploratory Data Analysis, 1977): a reward without a bound that somebody found a way to drive.
    4. nothing to learn: it has one value only.

    Rules 1 to 3 look at rewards with a weight other than 0, over at least 12 traces.
    """
    used = {
        name: weights.get(name, float(weight))
        for name, weight in zip(scores.names, scores.weights, strict=True)
    }
    values = scores.edited(thresholds)
    parts = {name: values[:, at] * used[name] for at, name in enumerate(scores.names) if used[name]}
    total = sum(parts.values(), np.zeros(len(values)))
    found = []
    for name, part in parts.items():
        if len(part) < _FEW:
            break
        if np.ptp(part) == 0:
            found.append(Suspect(name, "nothing to learn: it has the same value in every trace", []))
            continue
        length = scores.metrics.get("tokens_out")
        if length is not None and (much := _follows(part, length)) >= _STRONG:
            why = f"length: it grows with the sampled tokens (rank correlation {much:.2f})"
            found.append(Suspect(name, why, _top(length + np.ptp(length) * part / np.ptp(part))))
        low, high = np.quantile(part, [0.25, 0.75])
        if high > low and (far := int((part > high + 3 * (high - low)).sum())):
            why = f"far out: {far} values above {high + 3 * (high - low):.3g}, three interquartile ranges up"
            found.append(Suspect(name, why, _top(part)))
        if len(parts) < 2:
            continue
        rest = total - part
        if (much := _follows(part, rest)) <= _AGAINST:
            why = f"against the rest: it rises while the others fall (rank correlation {much:.2f})"
            found.append(Suspect(name, why, _top(ranks(part) - ranks(rest))))
    return found


def _follows(a: Values, b: Values) -> float:
    known = ~np.isnan(a) & ~np.isnan(b)
    return _pearson(ranks(a[known]), ranks(b[known]))


def _top(by: Values) -> list[int]:
    return [int(row) for row in np.argsort(-np.nan_to_num(by, nan=-np.inf), kind="stable")[:5]]


def rounded(values: Any, digits: int = 4) -> list[Any]:
    """Numbers for JSON; None for NaN."""
    return [None if value != value else round(float(value), digits) for value in values]
