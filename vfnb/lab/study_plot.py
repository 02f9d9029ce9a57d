"""Any number of a study over its axes, as means with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from vfnb.errors import ConfigError
from vfnb.lab.figures import Plot, chart_plot
from vfnb.lab.intervals import estimate
from vfnb.lab.means import MAX_LINES, Line, Means, Panel, Point, means_chart
from vfnb.lab.paired import normalised
from vfnb.lab.schema import nearest
from vfnb.lab.study_cells import StudyCell, axis_names, unlike_settings
from vfnb.lab.study_data import Values, measure, rollouts, settings_table, shared_unit
from vfnb.lab.text import columns, lines
from vfnb.lab.words import number

__all__ = ["plot_study"]

_MAX_PANELS = 8
Key = tuple[Any, Any, Any]  # facet, color, x


def plot_study(
    cells: Sequence[StudyCell],
    y: str = "reward",
    x: str | None = None,
    color: str | None = None,
    facet: str | None = None,
    *,
    grid: bool = True,
    level: float = 0.95,
) -> Plot:
    """Means of `y` with intervals.

    Args:
        cells: the settings.
        y: see `measure`.
        x, color, facet: axes, or `setting`; if none is given, the axes of a full grid are laid out by themselves.
        grid: whether the axes are crossed.
        level: of the intervals.

    Raises:
        ConfigError: there is no such axis or number, or more lines or panels than can be told apart.
    """
    table = rollouts(cells)
    names = [*axis_names(cells), "setting"]
    if x is None and color is None and facet is None:
        x, color, facet = _layout(settings_table(cells), names[:-1], grid)
    x = x or names[0]
    for role, name in {"x": x, "color": color, "facet": facet}.items():
        if name is not None and name not in names:
            raise ConfigError(f"{role}={name!r} is no axis of this study; {nearest(name, names)}")
    unit = shared_unit(table)
    groups = _groups(settings_table(cells), x, color, facet)
    found = measure(table, y, unit)
    values = {key: _pooled(found, settings) for key, settings in groups.items()}
    failed = table[table["state"] == "error"].groupby("setting").size()
    errors = {key: sum(int(failed.get(one, 0)) for one in settings) for key, settings in groups.items()}
    means = _means(values, errors, (facet, color, x), y, level)
    left = [name for name in names[:-1] if name not in (x, color, facet) and x != "setting"]
    varied = [name for name in left if len({str(cell.values.get(name)) for cell in cells}) > 1]
    title = f"{y} by " + ", ".join(name for name in (x, color, facet) if name)
    notes = [f"averaged over {', '.join(varied)}"] if varied else []
    notes.append(f"bars: {level:.0%} interval of the mean, clustered by task")
    if any(point.paired is not None for _, _, point in means.points()):
        notes.append("thick: without what all have in common, to compare them (paired by task)")
    if warning := unlike_settings(cells) if y == "reward" or y.startswith("pass@") else "":
        notes.append(f"warning: {warning}")
    if unit == "task_idx":
        notes.append("tasks are paired by position: no two settings share a task's key")
    return chart_plot(
        means_chart(means, title, "; ".join(notes)), _text(means, [title, *notes], color, facet)
    )


def _layout(table: pd.DataFrame, names: Sequence[str], grid: bool) -> tuple[str, str | None, str | None]:
    """Numbers along x, then what has most values; the rest by colour and panel."""
    varied = [name for name in names if table[name].nunique(dropna=False) > 1]
    if not grid or len(varied) > 3:
        return "setting", None, None
    order = sorted(varied, key=lambda name: (not _is_number(table[name]), -table[name].nunique()))
    first, second, third, *_ = (*order, None, None, None)
    return first or names[0], second, third


def _is_number(column: Any) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _groups(table: pd.DataFrame, x: str, color: str | None, facet: str | None) -> dict[Key, list[str]]:
    """The settings at each place, in the order of the study; numbers in their own."""
    found: dict[Key, list[str]] = {}
    ordered = table
    for name in (x, color, facet):
        if name is not None and _is_number(table[name]):
            ordered = ordered.sort_values(name, kind="stable")
    for row in ordered.to_dict("records"):
        key = tuple(None if name is None else _plain(row[name]) for name in (facet, color, x))
        found.setdefault(key, []).append(row["setting"])  # type: ignore[arg-type]
    return found


def _plain(value: Any) -> Any:
    return "none" if pd.isna(value) else value


def _pooled(values: Values, settings: Sequence[str]) -> dict[str, list[float]]:
    """By task, the values of several settings."""
    found: dict[str, list[float]] = {}
    for setting in settings:
        for task, each in values.get(setting, {}).items():
            found.setdefault(task, []).extend(each)
    return {task: each for task, each in found.items() if each}


def _means(
    values: Mapping[Key, Mapping[str, list[float]]],
    errors: Mapping[Key, int],
    axes: tuple[str | None, str | None, str],
    y: str,
    level: float,
) -> Means:
    halves = _paired(values, level)
    xs = list(dict.fromkeys(key[2] for key in values))
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in xs)
    places = {value: float(value) if numeric else float(place) for place, value in enumerate(xs)}
    panels_named, lines_named = (
        _named(axis, [key[at] for key in values]) for at, axis in enumerate(axes[:2])
    )
    panels = []
    for facet in dict.fromkeys(key[0] for key in values):
        drawn = []
        for color in dict.fromkeys(key[1] for key in values):
            keys = [key for key in values if key[:2] == (facet, color)]
            points = []
            for key in keys:
                tasks = [task for task, each in values[key].items() for _ in each]
                mean = estimate(
                    [value for each in values[key].values() for value in each], tasks, level=level
                )
                failed = f"{errors[key]} rollouts failed and do not count" if errors[key] else ""
                points.append(Point(places[key[2]], _name(key[2]), mean, halves.get(key), failed))
            drawn.append(Line(lines_named[color], tuple(points)))
        panels.append(Panel(panels_named[facet], tuple(drawn)))
    if len(panels) > _MAX_PANELS or max(len(panel.lines) for panel in panels) > MAX_LINES:
        raise ConfigError(
            f"{len(panels)} panels of {len(panels[0].lines)} lines; at most {_MAX_PANELS} of {MAX_LINES} can be "
            "told apart: put the axis with most values on x"
        )
    ticks = sorted((place, _name(value)) for value, place in places.items())
    return Means(y, axes[2], numeric, tuple(ticks), tuple(panels))


def _paired(values: Mapping[Key, Mapping[str, list[float]]], level: float) -> dict[Key, float]:
    """The half widths to compare by, over the tasks that all places share."""
    filled = {key: tasks for key, tasks in values.items() if tasks}
    shared = set.intersection(*(set(tasks) for tasks in filled.values())) if filled else set()
    means = [[sum(tasks[task]) / len(tasks[task]) for task in sorted(shared)] for tasks in filled.values()]
    halves = normalised(means, level=level) if shared else None
    return dict(zip(filled, halves, strict=True)) if halves is not None else {}


def _named(axis: str | None, values: Sequence[Any]) -> dict[Any, str]:
    """What each colour or panel stands for; if one is a number, a yes or nothing, all have the name of the axis."""
    if axis is None:
        return dict.fromkeys(values, "")
    clear = all(isinstance(value, str) and value != "none" for value in values)
    return {value: _name(value) if clear else f"{axis}={_name(value)}" for value in values}


def _name(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _text(means: Means, head: Sequence[str], color: str | None, facet: str | None) -> str:
    """A line a point."""
    names = [*filter(None, (facet, color)), means.x, means.y, "interval", "paired", "rollouts", "tasks", ""]
    rows = []
    for panel, line, point in means.points():
        mean = point.mean
        reach = f"{number(mean.low)} to {number(mean.high)}" if mean.low is not None else "-"
        paired = f"± {number(point.paired, 2)}" if point.paired is not None else "-"
        told = [*([panel.title] if facet else []), *([line.name] if color else []), point.label]
        rows.append([*told, number(mean.mean), reach, paired, str(mean.n), str(mean.clusters), point.note])
    return lines(head, columns(names, rows), rest="plot.figure")
