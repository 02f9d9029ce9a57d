"""`run.reward_lab()`: other weights and thresholds on the stored rewards, and what they would change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from traitlets import Dict, Int, Unicode

from vfnb.lab.reward_lab_twin import lab_bundle
from vfnb.lab.reward_math import Scores, correlations, histogram, outcome, rounded, suspects
from vfnb.lab.widgets.base import script, style
from vfnb.lab.widgets.trace import TracePanel
from vfnb.lab.words import one_line

if TYPE_CHECKING:
    from vfnb.trace import Trace

__all__ = ["SHOWN", "RewardLab", "code_line"]

SHOWN = 50
"""Flipped traces that are listed."""


def code_line(weights: Mapping[str, float], thresholds: Mapping[str, float]) -> str:
    """The call that stores rewards as a new version; `""` without arguments. A threshold on `x` is a reward
    `x_at_least`."""
    parts = []
    if thresholds:
        rewards = ", ".join(
            f"'{name}_at_least': lambda trace: float(trace.rewards[{name!r}].value >= {least!r})"
            for name, least in thresholds.items()
        )
        parts.append(f"rewards={{{rewards}}}")
    if weights:
        parts.append(f"weights={dict(weights)!r}")
    return f"run.rescore({', '.join(parts)})" if parts else ""


class RewardLab(TracePanel):
    """Weights and thresholds to try. `code` is the line that stores what is shown, and `apply()` runs it; the table
    of all traces that change their order is then `flips()` of what it returns.

    Attributes:
        weights: by name of a reward, the weight to try; may be set from Python.
        thresholds: by name, the value from which the reward counts 1 and below which 0; may be set too.
        result: what they change: distributions, the first traces in another order, correlations, suspected rewards.
        signals: by name, the stored weight and the range of the values.
    """

    _esm = script("common", "panel", "lab")
    _css = style("common", "panel", "rows", "lab")

    signals = Dict({}).tag(sync=True)
    """By name of the reward: its stored `weight`, and the `low` and `high` of its values."""
    weights = Dict({}).tag(sync=True)
    """The weights that differ from the stored ones."""
    thresholds = Dict({}).tag(sync=True)
    """By name: the value from which the reward is 1, else 0."""
    result = Dict({}).tag(sync=True)
    """Distributions, flipped traces, correlations and suspected rewards."""
    code = Unicode("").tag(sync=True)
    """The line of code that does the same."""
    opened = Unicode("").tag(sync=True)
    """Id of the trace that is shown below."""
    asked = Int(0).tag(sync=True)
    """Counts the presses of the button that stores the version."""
    stored = Unicode("").tag(sync=True)
    """What became of the last one."""

    def __init__(
        self, name: str, scores: Scores, load: Callable[[str], Trace], rescore: Callable[..., Any]
    ) -> None:
        self.name = name
        self.scores = scores
        self._load, self._rescore = load, rescore
        super().__init__()
        self.signals = {
            name: {
                "weight": float(weight),
                "low": float(column.min()) if len(column) else 0.0,
                "high": float(column.max()) if len(column) else 1.0,
            }
            for name, weight, column in zip(scores.names, scores.weights, scores.values.T, strict=True)
        }
        self._compute(None)
        self.observe(self._compute, ["weights", "thresholds"])
        self.observe(self._open, "opened")
        self.observe(self._store, "asked")

    def _changed(self) -> tuple[dict[str, float], dict[str, float]]:
        """The weights and thresholds that change something."""
        weights = {name: float(value) for name, value in self.weights.items()}
        stored = {name: float(signal["weight"]) for name, signal in self.signals.items()}
        return (
            {name: value for name, value in weights.items() if value != stored.get(name)},
            {name: float(value) for name, value in self.thresholds.items() if value is not None},
        )

    def _to_store(self, weights: Mapping[str, float], thresholds: Mapping[str, float]) -> dict[str, float]:
        """The weights of a new version: a reward with a threshold gives its weight to the one that has it."""
        given = dict(weights)
        for name in thresholds:
            given[f"{name}_at_least"] = given.get(name, self.signals[name]["weight"])
            given[name] = 0.0
        return given

    def _compute(self, change: Any) -> None:
        weights, thresholds = self._changed()
        scores = self.scores
        try:
            made = outcome(scores, weights, thresholds)
        except ValueError as error:
            self.result = self.result | {"problem": str(error)}
            return
        edges, before, after = histogram(scores.reward, made.reward)
        edited = scores.edited(thresholds)
        columns = {
            "reward": made.reward,
            **{name: edited[:, at] for at, name in enumerate(scores.names)},
            **scores.metrics,
        }
        varied = {name: column for name, column in columns.items() if not np.isnan(column).all()}
        with self.hold_sync():
            self.code = code_line(self._to_store(weights, thresholds), thresholds)
            self.result = {
                "problem": "",
                "count": len(scores.ids),
                "left_out": scores.left_out,
                "edges": rounded(edges),
                "before": before.tolist(),
                "after": after.tolist(),
                "means": rounded(
                    [side.mean() if len(side) else np.nan for side in (scores.reward, made.reward)]
                ),
                "pairs": made.pairs,
                "flipped": made.flipped,
                "flips": [
                    {
                        "id": scores.ids[flip.row],
                        "task": one_line(
                            scores.titles.get(scores.tasks[flip.row], scores.tasks[flip.row]), 60
                        ),
                        "rollout": scores.rollouts[flip.row],
                        "before": round(float(scores.reward[flip.row]), 4),
                        "after": round(float(made.reward[flip.row]), 4),
                        "ranks": [flip.rank_before, flip.rank_after],
                        "pairs": flip.pairs,
                    }
                    for flip in made.flips[:SHOWN]
                ],
                "flips_total": len(made.flips),
                "names": list(varied),
                "correlations": [rounded(row, 2) for row in correlations(varied)],
                "suspects": [
                    {"name": one.name, "why": one.why, "ids": [scores.ids[row] for row in one.rows]}
                    for one in suspects(scores, weights, thresholds)
                ],
            }

    def _open(self, change: Any) -> None:
        if not self.opened:
            self.trace, self.graph = None, {}
        elif self.trace is None or self.trace.id != self.opened:
            self.show(self._load(self.opened))

    def apply(self) -> Any:
        """Store what is shown as a new version of the scores: what `code` says. Returns what `run.rescore` does.

        Raises:
            ConfigError: the rewards cannot be scored anew.
            RunNotFinished: the run still goes on.
        """
        weights, thresholds = self._changed()
        given: dict[str, Any] = {}
        if thresholds:
            given["rewards"] = {
                f"{name}_at_least": _at_least(name, least) for name, least in thresholds.items()
            }
        if weights or thresholds:
            given["weights"] = self._to_store(weights, thresholds)
        made = self._rescore(**given)
        self.stored = f"stored as version {made.version}; run.use({made.version}) has it"
        return made

    def _store(self, change: Any) -> None:
        try:
            self.apply()
        except Exception as error:  # it is told in the view, where the button is
            self.stored = f"{type(error).__name__}: {error}"[:500]

    def twin(self) -> dict[str, str]:
        """Weights, distributions, flipped traces and suspected rewards, as text and html."""
        return lab_bundle(self.name, dict(self.signals), self._changed(), dict(self.result), self.code)

    def __repr__(self) -> str:
        count = self.result.get("count", 0)
        return f"RewardLab({self.name}: {count} rewards, {self.result.get('flipped', 0)} pairs flipped)"


def _at_least(name: str, least: float) -> Callable[[Any], float]:
    def at_least(trace: Any) -> float:
        return float(trace.rewards[name].value >= least)

    return at_least
