"""How far a score agrees with labels: agreement, Cohen's kappa, confusion, thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vfnb.errors import ConfigError
from vfnb.lab.intervals import wilson
from vfnb.lab.schema import nearest

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Calibration", "Kappa", "calibrate", "kappa"]


@dataclass(frozen=True, slots=True)
class Kappa:
    """Agreement beyond chance."""

    value: float | None
    """None where chance alone would agree always: one side has a single category."""
    se: float | None
    agreement: float
    """Share of equal answers."""
    chance: float
    """The share that would be equal if both answered independently, as often as they did."""


def kappa(table: Sequence[Sequence[float]], *, weights: str = "none") -> Kappa:
    """Cohen's kappa of a square table of counts, rows one rater, columns the other.

    kappa = (po - pe) / (1 - pe) (Cohen 1960). Its standard error is that of Fleiss, Cohen & Everitt 1969 (equation
    13, for any weights). With `weights="quadratic"` a disagreement counts by the squared distance of the categories
    (Cohen 1968): w_ij = 1 - (i - j)^2 / (k - 1)^2.
    """
    k = len(table)
    n = sum(map(sum, table))
    p = [[cell / n for cell in row] for row in table]
    rows = [sum(row) for row in p]
    columns = [sum(row[j] for row in p) for j in range(k)]
    wide = max(1, k - 1)

    def w(i: int, j: int) -> float:
        return 1 - ((i - j) / wide) ** 2 if weights == "quadratic" else float(i == j)

    cells = [(i, j) for i in range(k) for j in range(k)]
    po = math.fsum(p[i][j] * w(i, j) for i, j in cells)
    pe = math.fsum(rows[i] * columns[j] * w(i, j) for i, j in cells)
    if math.isclose(pe, 1.0):
        return Kappa(None, None, po, pe)
    value = (po - pe) / (1 - pe)
    row_w = [math.fsum(columns[j] * w(i, j) for j in range(k)) for i in range(k)]
    column_w = [math.fsum(rows[i] * w(i, j) for i in range(k)) for j in range(k)]
    spread = math.fsum(
        p[i][j] * (w(i, j) * (1 - pe) - (row_w[i] + column_w[j]) * (1 - po)) ** 2 for i, j in cells
    )
    spread = (spread - (po * pe - 2 * pe + po) ** 2) / (n * (1 - pe) ** 4)
    return Kappa(value, math.sqrt(max(0.0, spread)), po, pe)


class Calibration:
    """A score held against a label, over the traces that have both.

    Attributes:
        score, label: their names.
        n: how many traces have both.
        unlabelled: how many have the score alone; `unscored`: the label alone.
        threshold: from here on the score counts as yes; None if numbers are compared as they are.
        confusion: a frame of counts, rows the label, columns the score.
        agreement: share of equal answers, with its Wilson interval `agreement_low` to `agreement_high`.
        kappa, kappa_se: Cohen's kappa and its standard error; of more than two numbers also `weighted_kappa`
            (quadratic weights).
    """

    def __init__(
        self,
        score: str,
        label: str,
        pairs: pd.DataFrame,
        threshold: float | None,
        unlabelled: int,
        unscored: int,
    ) -> None:
        import pandas as pd

        self.score = score
        self.label = label
        self.pairs = pairs
        """The traces: `trace`, `score`, `label`."""
        self.n = len(pairs)
        self.unlabelled = unlabelled
        self.unscored = unscored
        self.threshold = threshold
        ours, theirs = _answers(pairs, threshold)
        kinds = [False, True] if threshold is not None else sorted({*ours, *theirs})
        counts = [[0] * len(kinds) for _ in kinds]
        places = {kind: place for place, kind in enumerate(kinds)}
        for mine, their in zip(ours, theirs, strict=True):
            counts[places[their]][places[mine]] += 1
        names = ["no", "yes"] if threshold is not None else [f"{kind:g}" for kind in kinds]
        self.confusion = pd.DataFrame(
            counts,
            index=pd.Index(names, name=f"label {label}"),
            columns=pd.Index(names, name=f"score {score}"),
        )
        found = kappa(counts)
        self.agreement, self.kappa, self.kappa_se = found.agreement, found.value, found.se
        self.agreement_low, self.agreement_high = wilson(found.agreement, self.n)
        self.weighted_kappa = kappa(counts, weights="quadratic").value if len(kinds) > 2 else None
        self._counts = counts

    @property
    def precision(self) -> float | None:
        """Of the traces that the score calls yes, the share whose label is yes; None if there are none."""
        return self._share([(1, 1)], [(0, 1), (1, 1)])

    @property
    def recall(self) -> float | None:
        """Of the traces whose label is yes, the share that the score calls yes."""
        return self._share([(1, 1)], [(1, 0), (1, 1)])

    def _share(self, part: list[tuple[int, int]], whole: list[tuple[int, int]]) -> float | None:
        if self.threshold is None:
            return None
        total = sum(self._counts[i][j] for i, j in whole)
        return sum(self._counts[i][j] for i, j in part) / total if total else None

    def thresholds(self) -> pd.DataFrame:
        """Each threshold that tells scores apart, with `agreement`, `kappa`, `precision` and `recall`.

        Raises:
            ConfigError: numbers are compared as they are; give `calibrate` a threshold.
        """
        import pandas as pd

        if self.threshold is None:
            raise ConfigError("thresholds: the label has more than yes and no; give calibrate(threshold=...)")
        rows = []
        labels = _answers(self.pairs, self.threshold)[1]
        marked = self.pairs.assign(label=labels)
        for cut in sorted(set(self.pairs["score"])):
            one = Calibration(self.score, self.label, marked, float(cut), 0, 0)
            rows.append((float(cut), one.agreement, one.kappa, one.precision, one.recall))
        return pd.DataFrame(
            rows, columns=["threshold", "agreement", "kappa", "precision", "recall"], dtype=float
        )

    def disagreements(self) -> pd.DataFrame:
        """The traces on which score and label differ: `trace`, `score`, `label`."""
        ours, theirs = _answers(self.pairs, self.threshold)
        return self.pairs[[mine != their for mine, their in zip(ours, theirs, strict=True)]].reset_index(
            drop=True
        )

    def __repr__(self) -> str:
        from vfnb.lab.calibration_twin import calibration_line

        return f"Calibration({calibration_line(self)})"

    def __str__(self) -> str:
        from vfnb.lab.calibration_twin import calibration_text

        return calibration_text(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from vfnb.lab.calibration_twin import calibration_bundle

        return calibration_bundle(self)


def _answers(pairs: pd.DataFrame, threshold: float | None) -> tuple[list[Any], list[Any]]:
    scores, labels = list(pairs["score"]), list(pairs["label"])
    if threshold is None:
        return [float(one) for one in scores], [float(one) for one in labels]
    return (
        [one >= threshold for one in scores],
        [one if isinstance(one, bool) else one >= threshold for one in labels],
    )


def calibrate(
    rewards: pd.DataFrame, labels: pd.DataFrame, score: str, label: str, threshold: float | None
) -> Calibration:
    """Hold a column of `rewards` against a label; arguments and errors as for `Run.calibrate`."""
    import pandas as pd

    numbers = rewards.select_dtypes("number").drop(columns="rollout", errors="ignore")
    known = [str(name) for name in numbers]
    if score not in known:
        raise ConfigError(f"calibrate: no score {score!r}; {nearest(score, known)}")
    if threshold is not None and not (isinstance(threshold, int | float) and math.isfinite(threshold)):
        raise ConfigError(f"calibrate: threshold={threshold!r} must be a finite number")
    rows = labels[labels["label"] == label]
    if rows.empty:
        there = sorted(set(labels["label"]))
        hint = nearest(label, there) if there else "give some with trace.label(name, value)"
        raise ConfigError(f"calibrate: no trace has the label {label!r}; {hint}")
    values = dict(zip(rows["trace"], rows["value"], strict=True))
    texts = [value for value in values.values() if isinstance(value, str)]
    if texts:
        raise ConfigError(
            f"calibrate: the label {label} has texts such as {texts[0]!r}; label with truth values or numbers"
        )
    if threshold is None and all(isinstance(value, bool) for value in values.values()):
        threshold = 0.5
    scored = rewards[score].dropna()
    both = [trace for trace in scored.index if trace in values]
    if not both:
        raise ConfigError(f"calibrate: no trace has both the score {score} and the label {label}")
    pairs = pd.DataFrame(
        {
            "trace": pd.array(both, dtype="string"),
            "score": [float(scored[trace]) for trace in both],
            "label": pd.Series([values[trace] for trace in both], dtype=object),
        }
    )
    return Calibration(score, label, pairs, threshold, len(scored) - len(both), len(values) - len(both))
