"""The settings of a study as a table for a page or a paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vfnb.lab.contrast_twin import difference_words, p_words
from vfnb.lab.grid import Grid
from vfnb.lab.intervals import estimate
from vfnb.lab.study_cells import StudyCell, axis_names
from vfnb.lab.study_compare import compare_settings
from vfnb.lab.study_data import measure, rollouts
from vfnb.lab.words import count, money, number

__all__ = ["study_table"]


def study_table(
    cells: Sequence[StudyCell], y: str = "reward", *, correction: str = "holm", level: float = 0.95
) -> Grid:
    """A row per setting: its place, the mean of `y` with its interval, the difference to the first setting.

    Raises:
        ConfigError: no such number or correction.
    """
    table = rollouts(cells)
    values = measure(table, y, "task")
    against = compare_settings(cells, y=y, correction=correction, level=level) if len(cells) > 1 else None
    contrasts = {item.b: item for item in against.items} if against is not None else {}
    names = axis_names(cells)
    priced = bool(table["cost"].notna().any())
    rows = []
    for cell in cells:
        tasks = {task: each for task, each in values.get(cell.name, {}).items() if each}
        mean = estimate(
            [value for each in tasks.values() for value in each],
            [task for task, each in tasks.items() for _ in each],
            level=level,
        )
        part = table[table["setting"] == cell.name]
        item = contrasts.get(cell.name)
        rows.append(
            (
                *(_shown(cell.values.get(name)) for name in names),
                number(mean.mean),
                f"{number(mean.low)} to {number(mean.high)}" if mean.low is not None else "-",
                difference_words(item) if item is not None else "-",
                p_words(item.p_adjusted) if item is not None else "-",
                f"{int(part['reward'].notna().sum())} of {cell.planned}",
                str(int((part["state"] == "error").sum())),
                count(int(part["tokens_out"].sum())),
                *([money(float(part["cost"].sum()))] if priced else []),
            )
        )
    head = (*names, y, f"{level:.0%} interval", "difference", "p", "scored", "errors", "tokens out")
    head += ("cost",) if priced else ()
    notes = [f"difference: to the first setting, paired by task; p: {_corrected(correction, len(cells))}"]
    notes += [] if against is None else against.notes
    return Grid(f"{y} of {len(cells)} settings", head, tuple(rows), tuple(notes), "study-table")


def _corrected(correction: str, settings: int) -> str:
    names = {"holm": "Holm", "bh": "Benjamini and Hochberg"}
    if correction not in names or settings < 3:
        return "two-sided"
    return f"two-sided, corrected for {settings - 1} comparisons ({names[correction]})"


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
