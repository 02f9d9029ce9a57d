"""A study's settings as plain records, for displays: no pandas, so that a progress view starts at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vfnb.lab.intervals import Estimate, estimate
from vfnb.lab.rows import Row
from vfnb.lab.scored_by import scored_by, unlike

if TYPE_CHECKING:
    from vfnb.store.reader import RunReader

__all__ = ["StudyCell", "axis_names", "reward_of", "unlike_settings"]


@dataclass(frozen=True)
class StudyCell:
    """One setting of a study."""

    name: str
    values: Mapping[str, Any]
    """Its place on the axes, by column."""
    planned: int
    """Rollouts."""
    reader: RunReader | None = None
    """Its run; None if it has not begun."""
    rows: Sequence[Row] = field(default=())
    """Its rollouts that ended."""


def axis_names(cells: Sequence[StudyCell]) -> list[str]:
    """The columns of the axes."""
    return list(dict.fromkeys(name for cell in cells for name in cell.values))


def unlike_settings(cells: Sequence[StudyCell]) -> str:
    """A warning if the settings were scored by different rewards; else `""`."""
    return unlike({cell.name: scored_by(cell.reader) for cell in cells if cell.reader is not None})


def reward_of(cell: StudyCell) -> Estimate:
    """Mean reward of a setting with its interval, clustered by task."""
    scored = [row for row in cell.rows if row.outcome == "scored"]
    return estimate([float(row.reward or 0.0) for row in scored], [row.task for row in scored])
