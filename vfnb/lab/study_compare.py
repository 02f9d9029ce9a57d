"""Settings against each other, paired by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pandas as pd

from vfnb.errors import ConfigError
from vfnb.lab.contrast import CORRECTIONS, Contrasts, contrast
from vfnb.lab.schema import nearest
from vfnb.lab.study_cells import StudyCell, axis_names, unlike_settings
from vfnb.lab.study_data import Values, measure, rollouts, shared_unit
from vfnb.lab.words import listing

__all__ = ["Chosen", "compare_settings", "fitting"]

Chosen: TypeAlias = str | int | Mapping[str, Any]


def compare_settings(
    cells: Sequence[StudyCell],
    a: Chosen | None = None,
    b: Chosen | Sequence[Chosen] | None = None,
    *,
    y: str = "reward",
    correction: str = "holm",
    level: float = 0.95,
) -> Contrasts:
    """The difference of settings, paired by task.

    Args:
        cells: the settings.
        a: what to compare with: a setting's name or position, or values of axes as a dict; the first setting by
            default. A dict that fits several settings stands for their mean on each task.
        b: the other side, or a list of them; every other setting by default.
        y: see `measure`.
        correction: of the p values of several contrasts: `holm`, `bh` (Benjamini-Hochberg) or `none`.
        level: of the intervals; 1 - `level` is the level of the tests.

    Raises:
        ConfigError: no such setting, number or correction, or nothing to compare with.
    """
    if correction not in CORRECTIONS:
        raise ConfigError(f"correction={correction!r}: {nearest(str(correction), list(CORRECTIONS))}")
    if not isinstance(level, int | float) or not 0 < level < 1:
        raise ConfigError(f"level={level!r} must lie between 0 and 1, as 0.95 does")
    base = fitting(cells, a if a is not None else 0)
    if b is None:
        others = [(cell.name, [cell.name]) for cell in cells if cell.name not in base[1]]
    else:
        asked: Sequence[Chosen] = b if isinstance(b, Sequence) and not isinstance(b, str) else [b]
        others = [fitting(cells, one) for one in asked]
    if not others:
        raise ConfigError("there is no second setting to compare with")
    table = rollouts(cells)
    found = []
    for name, settings in others:
        if set(settings) & set(base[1]):
            raise ConfigError(
                f"{name} and {base[0]} share the setting {settings[0]}; compare two different ones"
            )
        part = table[table["setting"].isin([*base[1], *settings])]
        values = measure(part, y, shared_unit(part))
        found.append(contrast(base[0], name, _means(values, base[1]), _means(values, settings), level=level))
    involved = [*base[1], *(setting for _, settings in others for setting in settings)]
    notes = [*_unlike(cells, y, involved), *_left_out(table, y, involved)]
    return Contrasts.of(found, y=y, level=level, correction=correction, notes=notes)


def fitting(cells: Sequence[StudyCell], chosen: Chosen) -> tuple[str, list[str]]:
    """The name of a choice and the settings that it fits.

    Raises:
        ConfigError: there is no such setting or axis.
    """
    names = [cell.name for cell in cells]
    if isinstance(chosen, bool) or not isinstance(chosen, str | int | Mapping):
        raise ConfigError(f"{chosen!r}: name a setting, or give values of axes as a dict")
    if isinstance(chosen, str):
        if chosen not in names:
            raise ConfigError(f"there is no setting {chosen!r}; {nearest(chosen, names)}")
        return chosen, [chosen]
    if isinstance(chosen, int):
        if not -len(names) <= chosen < len(names):
            raise ConfigError(f"there is no setting number {chosen}; there are {len(names)}")
        return names[chosen], [names[chosen]]
    for axis in chosen:
        if axis not in axis_names(cells):
            raise ConfigError(f"{axis!r} is no axis of this study; {nearest(str(axis), axis_names(cells))}")
    fits = [
        cell.name
        for cell in cells
        if all(_same(cell.values.get(axis), value) for axis, value in chosen.items())
    ]
    told = ", ".join(f"{axis}={value}" for axis, value in chosen.items())
    if not fits:
        raise ConfigError(f"no setting has {told or 'no values'}; there are {listing(names[:20], '; ')}")
    return (fits[0] if len(fits) == 1 else told), fits


def _same(known: Any, asked: Any) -> bool:
    return bool(known == asked) or str(known) == str(asked)


def _means(values: Values, settings: Sequence[str]) -> dict[str, list[float]]:
    """By task, one setting's values, or the mean of each of several settings that all have the task."""
    if len(settings) == 1:
        return values.get(settings[0], {})
    tables = [values.get(setting, {}) for setting in settings]
    tasks = [task for task in tables[0] if all(table.get(task) for table in tables)]
    return {task: [sum(table[task]) / len(table[task]) for table in tables] for task in tasks}


def _unlike(cells: Sequence[StudyCell], y: str, settings: Sequence[str]) -> list[str]:
    """Whether the rewards of the settings are not the same ones."""
    warning = unlike_settings([cell for cell in cells if cell.name in settings]) if _is_reward(y) else ""
    return [f"warning: {warning}"] if warning else []


def _is_reward(y: str) -> bool:
    return y == "reward" or y.startswith("pass@")


def _left_out(table: pd.DataFrame, y: str, settings: Sequence[str]) -> list[str]:
    """Who does not count because there is no value, by setting."""
    told = []
    for setting in dict.fromkeys(settings):
        part = table[table["setting"] == setting]
        missing = int(part["reward" if y.startswith("pass@") else y].isna().sum())
        failed = int((part["state"] == "error").sum())
        if missing or part.empty:
            cause = f", {failed} by an error" if failed else ""
            told.append(f"{setting}: {missing} of {len(part)} rollouts have no value{cause}")
    return told
