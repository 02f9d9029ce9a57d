"""Frames: a run as typed pandas tables, at nine levels.

`where=` and `columns=` reach down to the store, so that what is not asked for is not read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from vfnb.errors import ConfigError, StoreError
from vfnb.lab.deep_levels import parts
from vfnb.lab.schema import CONTEXT, SCHEMA, Column, columns_of, nearest
from vfnb.lab.sql_levels import SQL_LEVELS, labels, select, trace_columns
from vfnb.lab.typed import table, typed
from vfnb.lab.where import Condition, parse
from vfnb.store.reader import RunReader

__all__ = ["filtered", "frame", "rewards", "score_column"]

_UNREADABLE = "unreadable"
_TAKEN = frozenset(("task", "rollout", "reward", "ok", "stop", "error"))  # columns that `rewards` has anyway


def frame(
    reader: RunReader,
    level: str,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    *,
    version: int | None = None,
) -> pd.DataFrame:
    """A table of the run.

    Args:
        reader: the run.
        level: runs, episodes, traces, branches, messages, calls, tokens, errors or judges.
        columns: names to read, all by default; `schema(level)` lists them. The level `traces` has `label_<name>`
            for each label besides.
        where: an SQL condition over the level's columns, e.g. `"reward < 0.5 AND role = 'assistant'"`.
        version: the score version of `reward`, the newest by default.

    Returns:
        A frame with the columns of `schema(level)`. `attrs` has `level`, `complete` (False while the run goes
        on), `run` (its folder), `schema`, `version` and, for levels that read messages, `unreadable`: trace id ->
        reason. An unreadable trace is one row with the reason in the column `unreadable`.

    Raises:
        ConfigError: an unknown level or column, or a condition that is none; the message has the nearest name.
        StoreError: the file is damaged.
    """
    more = labels(reader) if level == "traces" else {}
    known = (*columns_of(level), *more)
    names = [column.name for column in known]
    columns = [columns] if isinstance(columns, str) else columns
    for name in columns or ():
        if name not in names:
            raise ConfigError(f"the frame {level!r} has no column {name!r}; {nearest(name, names)}")
    wanted = tuple(column for column in known if columns is None or column.name in columns)
    condition = None if where is None else parse(where, names)
    chosen = reader.newest() if version is None else version
    unreadable: dict[str, str] = {}
    made: pd.DataFrame
    if level in SQL_LEVELS:
        sql = None if condition is None else condition.sql
        values = _checked(where, select, reader, level, [column.name for column in wanted], sql, chosen, more)
        made = table(wanted, values)
    else:
        made, unreadable = _deep(reader, level, wanted, condition, where, chosen)
    if columns is not None:
        made = made[list(columns)]
    made.attrs = {
        "level": level,
        "complete": reader.complete,
        "run": str(reader.dir),
        "schema": SCHEMA,
        "version": chosen,
        "unreadable": unreadable,
    }
    return made


def _checked(where: str | None, query: Any, *args: Any) -> Any:
    """Run a query; an error of a condition that SQLite cannot make sense of is the caller's."""
    try:
        return query(*args)
    except (StoreError, sqlite3.Error) as error:
        if where is not None and "damaged" not in str(error):
            raise ConfigError(f"where={where!r} is not a condition: {error}") from error
        raise


def _deep(
    reader: RunReader,
    level: str,
    wanted: tuple[Column, ...],
    condition: Condition | None,
    where: str | None,
    version: int,
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Select traces by what the condition says of them, read those, then apply the rest of it to the rows."""
    above, below, used = _halves(condition)
    traces = _checked(where, trace_columns, reader, above, version)
    needed = {column.name for column in wanted} | used
    known = [column for column in columns_of(level) if column.name in needed]
    own = [column for column in columns_of(level) if column.name not in (*CONTEXT, _UNREADABLE)]
    names = [column.name for column in own if column.name in needed] or [own[0].name]
    values: dict[str, list[Any]] = {name: [] for name in names}
    context = dict(traces)
    owners: list[int] = []
    counts: list[int] = []
    reasons: list[str | None] = []
    for num, part in parts(reader, level, list(context), set(names)):
        broken = isinstance(part, StoreError)
        owners.append(num)
        counts.append(1 if isinstance(part, StoreError) else len(part[names[0]]))
        reasons.append(str(part) if broken else None)
        for name in names:
            values[name].append((None,) if isinstance(part, StoreError) else part[name])
    rows = np.repeat(np.arange(len(owners)), counts)
    columns = {}
    for column in known:
        if column.name in values:
            columns[column.name] = typed(column.kind, _joined(values.pop(column.name)))
        else:
            each = reasons if column.name == _UNREADABLE else _context(context, owners, column.name)
            columns[column.name] = typed(column.kind, each).take(rows)
    made = pd.DataFrame(columns)
    if below is not None:
        made = _filter(made, below, used, where)
    unreadable = {context[num][0]: reason for num, reason in zip(owners, reasons, strict=True) if reason}
    return made[[column.name for column in wanted]], unreadable


def _context(context: dict[int, tuple[Any, ...]], owners: list[int], name: str) -> list[Any]:
    place = CONTEXT.index(name)
    return [context[num][place] for num in owners]


def _joined(pieces: list[Any]) -> Any:
    if pieces and all(isinstance(piece, np.ndarray) for piece in pieces):
        return np.concatenate(pieces)
    return list(chain.from_iterable(pieces))


def _halves(condition: Condition | None) -> tuple[str | None, str | None, set[str]]:
    """What a condition says of traces, what it says of rows, and the columns that the latter uses."""
    if condition is None:
        return None, None, set()
    above = [sql for sql, used in condition.parts if used <= set(CONTEXT)]
    below = [(sql, used) for sql, used in condition.parts if not used <= set(CONTEXT)]
    used = set().union(*(names for _, names in below))
    return " AND ".join(above) or None, " AND ".join(sql for sql, _ in below) or None, used


def _filter(made: pd.DataFrame, condition: str, used: set[str], where: str | None) -> pd.DataFrame:
    """The rows for which SQLite, which also judged the traces, finds the condition true."""
    names = sorted(used)
    db = sqlite3.connect(":memory:")
    try:
        listed = ", ".join(f'"{name}"' for name in names)
        db.execute(f"CREATE TABLE made (row INTEGER PRIMARY KEY, {listed})")
        marks = ", ".join("?" * (len(names) + 1))
        plain = [_plain(made[name]) for name in names]
        db.executemany(f"INSERT INTO made VALUES ({marks})", zip(range(len(made)), *plain, strict=True))
        kept = [row for (row,) in _checked(where, db.execute, f"SELECT row FROM made WHERE {condition}")]
    finally:
        db.close()
    return made.iloc[kept].reset_index(drop=True)


def filtered(made: pd.DataFrame, where: str) -> pd.DataFrame:
    """The rows of any table for which a condition over its columns is true, as `where=` of a frame.

    Raises:
        ConfigError: the condition names no column of it, or is none.
    """
    condition = parse(where, list(made.columns))
    used = set().union(*(names for _, names in condition.parts))
    return _filter(made, condition.sql, used, where)


def _plain(column: pd.Series[Any]) -> list[Any]:
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        seconds = column.astype("int64") / 1e9
        return seconds.astype(object).where(column.notna(), None).tolist()
    return column.astype(object).where(column.notna(), None).tolist()


def score_column(name: str) -> str:
    """The column of `rewards` that a reward or metric has."""
    return f"score_{name}" if name in _TAKEN else name


def rewards(reader: RunReader, version: int | None = None) -> pd.DataFrame:
    """One row per rollout: a column per reward and metric under its own name, and how the rollout ended.

    Args:
        reader: the run.
        version: the score version, the newest by default.

    Returns:
        Columns `task`, `rollout`, then the rewards (unweighted) and metrics in the order of their declaration, then
        `reward` (weighted sum), `ok`, `stop`, `error`; the index is the trace id. Unscored values are missing,
        never zero. A reward or metric named as one of these columns gets `score_` before its name. `attrs` as in
        `frame`. Superseded attempts are left out.
    """
    chosen = reader.newest() if version is None else version
    heads = reader.query(
        "SELECT num, id, task_key, rollout, t.reward, ok, stop, "
        "coalesce(traces.error, iif(t.error IS NULL, NULL, 'ScoringError')) FROM traces "
        "LEFT JOIN totals t ON t.trace = num AND t.version = ? WHERE superseded = 0 ORDER BY num",
        (chosen,),
    )
    row_of = {head[0]: row for row, head in enumerate(heads)}
    scores: dict[str, np.ndarray[Any, Any]] = {}
    for num, name, value in reader.query(
        "SELECT trace, name, value FROM scores WHERE version = ? ORDER BY trace, pos", (chosen,)
    ):
        row = row_of.get(num)
        if row is None:
            continue
        column = scores.get(name)
        if column is None:
            column = scores[name] = np.full(len(heads), np.nan)
        if value is not None:
            column[row] = value
    _, ids, task, rollout, reward, ok, stop, error = zip(*heads, strict=True) if heads else ((),) * 8
    front = {"task": typed("text", task), "rollout": typed("int", rollout)}
    back = {
        "reward": typed("float", reward),
        "ok": typed("bool", ok),
        "stop": typed("text", stop),
        "error": typed("text", error),
    }
    named = {score_column(name): column for name, column in scores.items()}
    made = pd.DataFrame(front | named | back, index=pd.Index(typed("text", ids), name="trace"))
    made.attrs = {
        "level": "rewards",
        "complete": reader.complete,
        "run": str(reader.dir),
        "schema": SCHEMA,
        "version": chosen,
    }
    return made
