"""The rollouts of a study as one table, its settings as another, and any number in it by task."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from vfnb.errors import ConfigError
from vfnb.lab.frames import frame, rewards
from vfnb.lab.intervals import pass_at_k
from vfnb.lab.schema import nearest
from vfnb.lab.study_cells import StudyCell, axis_names, reward_of

__all__ = ["Values", "level_table", "measure", "rollouts", "settings_table", "shared_unit"]

_HEADLINE = ("trace", "task_idx", "task_name", "state", "turns", "tokens_in", "tokens_out", "cost", "time_s")
_TAIL = ("turns", "tokens_in", "tokens_out", "cost", "time_s")
_KINDS = {
    **dict.fromkeys(("task", "task_name"), "string"),
    "task_idx": "Int64",
    "rollout": "Int64",
    **dict.fromkeys(("trace", "state"), "string"),
    "ok": "boolean",
    **dict.fromkeys(("stop", "error"), "string"),
    "reward": "Float64",
    **dict.fromkeys(_TAIL[:3], "Int64"),
    **dict.fromkeys(_TAIL[3:], "Float64"),
}
"""The columns that every rollout has, with their pandas dtypes, in order; rewards and metrics stand between."""
_PASS = re.compile(r"pass@([1-9]\d*)")
_ENDED_WELL = frozenset(_TAIL)
"""Measures of rollouts that ended in order; rewards and metrics have their own missing values."""


def _kind(values: Iterable[Any]) -> str:
    """The pandas dtype of an axis."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return "boolean"
    if kinds == {int}:
        return "Int64"
    return "Float64" if kinds and kinds <= {int, float} else "string"


def _array(values: Iterable[Any], kind: str) -> Any:
    """Values as a pandas array; None and NaN are missing."""
    plain = [None if value is None or pd.isna(value) else value for value in values]
    return pd.array(list(map(_text, plain)) if kind == "string" else plain, dtype=kind)  # type: ignore[call-overload]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _axes(cells: Sequence[StudyCell], repeats: Mapping[str, int]) -> dict[str, Any]:
    """The columns of the axes, each setting's value as often as it has rows."""
    return {
        name: _array(
            (cell.values.get(name) for cell in cells for _ in range(repeats.get(cell.name, 0))),
            _kind(cell.values.get(name) for cell in cells),
        )
        for name in axis_names(cells)
    }


def rollouts(cells: Sequence[StudyCell]) -> pd.DataFrame:
    """A row per setting, task and rollout.

    Returns:
        `setting`, the axes, `task`, `task_idx`, `task_name`, `rollout`, `trace`, `state`, `ok`, `stop`, `error`,
        `reward`, each reward and metric, `turns`, `tokens_in`, `tokens_out`, `cost` (US dollars), `time_s`. What
        has no value is missing, never 0. A reward or metric with the name of another column gets `score_` before
        it.
    """
    parts: dict[str, dict[str, list[Any]]] = {}
    for cell in cells:
        if cell.reader is not None:
            scores = rewards(cell.reader).reset_index()
            scores = scores.rename(columns={name: f"score_{name}" for name in _HEADLINE[1:]})
            heads = frame(cell.reader, "traces", columns=_HEADLINE, where="superseded = 0")
            merged = scores.merge(heads, on="trace", validate="one_to_one")
            parts[cell.name] = {str(name): list(merged[name]) for name in merged}
    sizes = {name: len(part["trace"]) for name, part in parts.items()}
    columns: dict[str, Any] = {
        "setting": _array((name for name, size in sizes.items() for _ in range(size)), "string"),
        **_axes(cells, sizes),
    }
    own = dict.fromkeys(name for part in parts.values() for name in part if name not in _KINDS)
    order = list(_KINDS)
    for name in (*order[: -len(_TAIL)], *own, *_TAIL):
        values = (value for key, part in parts.items() for value in part.get(name, [None] * sizes[key]))
        shown = f"score_{name}" if name in columns else name
        columns[shown] = _array(values, _KINDS.get(name, "Float64"))
    return pd.DataFrame(columns)


def level_table(cells: Sequence[StudyCell], parts: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Frames of the runs as one: `setting` and the axes in front, as `axis_<name>` where a column has the name."""
    begun = [cell for cell in cells if cell.name in parts]
    if not begun:
        return pd.DataFrame({"setting": pd.array([], dtype="string")})
    joined = pd.concat([parts[cell.name] for cell in begun], ignore_index=True)
    sizes = {cell.name: len(parts[cell.name]) for cell in begun}
    front = {"setting": _array((name for name, size in sizes.items() for _ in range(size)), "string")}
    for name, values in _axes(begun, sizes).items():
        front[f"axis_{name}" if name in joined else name] = values
    made = pd.concat([pd.DataFrame(front, index=joined.index), joined], axis=1)
    made.attrs = {name: value for name, value in joined.attrs.items() if name in ("level", "schema")}
    return made


def settings_table(cells: Sequence[StudyCell]) -> pd.DataFrame:
    """A row per setting.

    Returns:
        `setting`, the axes, `n` (rollouts planned), `scored`, `errors`, `cancelled`, `reward` (mean of the scored)
        with `reward_se`, `reward_low`, `reward_high` (95 %, clustered by task), means per rollout that ended in
        order of `turns`, `tokens_in`, `tokens_out`, `time_s`, and the sum of `cost` in US dollars.
    """
    columns: dict[str, Any] = {"setting": pd.array([cell.name for cell in cells], dtype="string")}
    columns |= _axes(cells, {cell.name: 1 for cell in cells})
    rows = [_setting(cell) for cell in cells]
    for name in rows[0] if rows else ():
        kind = "Int64" if name in ("n", "scored", "errors", "cancelled") else "Float64"
        columns[name] = _array((row[name] for row in rows), kind)
    return pd.DataFrame(columns)


def _setting(cell: StudyCell) -> dict[str, Any]:
    reward = reward_of(cell)
    fine = [row for row in cell.rows if row.ok]
    costs = [row.cost for row in cell.rows if row.cost is not None]
    return {
        "n": cell.planned,
        "scored": reward.n,
        "errors": sum(row.outcome == "error" for row in cell.rows),
        "cancelled": sum(row.outcome == "cancelled" for row in cell.rows),
        "reward": reward.mean,
        "reward_se": reward.se,
        "reward_low": reward.low,
        "reward_high": reward.high,
        **{
            name: _mean(getattr(row, name) for row in fine)
            for name in ("turns", "tokens_in", "tokens_out", "time_s")
        },
        "cost": sum(costs) if costs else None,
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


Values = dict[str, dict[str, list[float]]]
"""Values by setting and task."""


def measure(table: pd.DataFrame, y: str, unit: str = "task") -> Values:
    """One number of the rollouts table, by setting and task; rollouts without it are left out.

    Args:
        table: what `rollouts` gives.
        y: `reward`, a reward, a metric, `turns`, `tokens_in`, `tokens_out`, `cost`, `time_s`, or `pass@k` (one
            value for each task with at least k scored rollouts; a reward of 1 or more passes).
        unit: column by which rollouts belong together: `task` or `task_idx`.

    Raises:
        ConfigError: there is no such number.
    """
    found: Values = {str(name): {} for name in table["setting"].unique()}
    passing = _PASS.fullmatch(y)
    column = "reward" if passing else y
    hidden = ("rollout", "task_idx")
    numeric = [
        str(name) for name in table if pd.api.types.is_numeric_dtype(table[name]) and name not in hidden
    ]
    if column not in numeric:
        raise ConfigError(f"y={y!r} is no number of these rollouts; {nearest(y, [*numeric, 'pass@1'])}")
    there = table[table[column].notna()]
    if column in _ENDED_WELL:
        there = there[there["ok"].fillna(value=False)]
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for setting, task, value in zip(there["setting"], there[unit], there[column], strict=True):
        values[str(setting)][str(task)].append(float(value))
    for setting, tasks in values.items():
        found[setting] = {
            task: _passed(each, int(passing[1])) if passing else each for task, each in tasks.items()
        }
    return found


def _passed(values: Sequence[float], k: int) -> list[float]:
    if k < 1 or len(values) < k:
        return []
    return [pass_at_k(len(values), sum(value >= 1.0 for value in values), k)]


def shared_unit(table: pd.DataFrame) -> str:
    """What pairs the tasks of settings: their keys, or their positions where no two settings share a key.

    A task without a key of its own is known by its content, which an axis of the taskset may change.
    """
    keys = [set(map(str, part)) for _, part in table.groupby("setting")["task"]]
    disjoint = len(keys) > 1 and sum(map(len, keys)) == len(set().union(*keys))
    return "task_idx" if disjoint else "task"
