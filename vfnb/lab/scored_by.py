"""By what rewards rollouts were scored: means of different rewards must not be compared in silence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vfnb.lab.words import number, one_line
from vfnb.store.reader import RunReader

__all__ = ["ScoredBy", "scored_by", "unlike"]


@dataclass(frozen=True, slots=True)
class ScoredBy:
    """What the shown rewards of a run are made of."""

    weights: tuple[tuple[str, float], ...]
    """The rewards that count, with their weights."""
    label: str
    """Of the version, if the run was scored anew by `rescore`; a taskset's own scores have none."""

    def __str__(self) -> str:
        told = ", ".join(
            name if weight == 1 else f"{name} x {number(weight)}" for name, weight in self.weights
        )
        return one_line(told, 120) + (f" (rescored: {one_line(self.label, 40)})" if self.label else "")


def scored_by(reader: RunReader, version: int | None = None) -> ScoredBy | None:
    """What the rewards of one version (the newest by default) are made of; None if there are none."""
    chosen = reader.newest() if version is None else version
    shown = "JOIN traces ON num = trace AND superseded = 0 WHERE version = ?"
    weights = reader.query(
        f"SELECT DISTINCT name, weight FROM scores {shown} AND kind = 'reward' AND weight <> 0 ORDER BY 1, 2",
        (chosen,),
    )
    if not weights:
        return None
    label = reader.query(
        f"SELECT label FROM versions WHERE version = ? AND EXISTS (SELECT 1 FROM totals {shown} "
        "AND totals.score_hash LIKE 'rescored-%')",
        (chosen, chosen),
    )
    return ScoredBy(tuple(weights), str(label[0][0] or "without a label") if label else "")


def unlike(runs: Mapping[str, ScoredBy | None]) -> str:
    """A warning if runs, by name, were scored by different rewards; else `""`."""
    groups: dict[ScoredBy, list[str]] = {}
    for name, found in runs.items():
        if found is not None:
            groups.setdefault(found, []).append(name)
    if len(groups) < 2:
        return ""
    told = [f"{one_line(', '.join(names), 80)}: {found}" for found, names in list(groups.items())[:3]]
    more = f"; and {len(groups) - 3} more" if len(groups) > 3 else ""
    return f"scored by different rewards, so that means do not compare: {'; '.join(told)}{more}"
