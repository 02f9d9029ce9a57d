"""Frame levels that are SQL over the store's own tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from vfnb.errors import ConfigError, StoreError
from vfnb.lab.schema import Column, Kind, columns_of
from vfnb.lab.where import parse
from vfnb.store.reader import RunReader

__all__ = ["SQL_LEVELS", "labels", "matching", "select", "trace_columns"]

_TOTAL = "LEFT JOIN totals ON totals.trace = traces.num AND totals.version = :version"
_CONTEXT = {
    "trace": "traces.id",
    "task": "traces.task_key",
    "rollout": "traces.rollout",
    "state": "iif(traces.state = 'running', :unfinished, traces.state)",
    "ok": "traces.ok",
    "reward": "totals.reward",
}
_ENDED = "state <> 'running'"


def _same(level: str, table: str, special: dict[str, str]) -> dict[str, str]:
    """Expressions by column: the special ones, else the table's column of the same name."""
    return {column.name: special.get(column.name, f"{table}.{column.name}") for column in columns_of(level)}


def _meta(key: str) -> str:
    return f"(SELECT json_extract(value, '$') FROM meta WHERE key = '{key}')"


def _count(condition: str) -> str:
    return f"(SELECT count(*) FROM traces WHERE NOT superseded AND {condition})"


def _sum(column: str) -> str:
    return f"(SELECT sum({column}) FROM traces)"


_FROM_TRACES = f"FROM traces {_TOTAL}"
_OF_EPISODE = "traces.episode = episodes.id AND NOT traces.superseded"
_SCORED = "(SELECT {} FROM totals JOIN traces ON num = trace WHERE version = :version AND NOT superseded)"

_TRACES = _same(
    "traces",
    "traces",
    _CONTEXT
    | {
        "group": "traces.group_id",
        "superseded": "traces.superseded",
        "time_s": "traces.ended - traces.started",
        "tokens_in": "traces.prompt_tokens",
        "tokens_out": "traces.completion_tokens",
        "tokens_cached": "traces.cached_tokens",
        "tokens_reasoning": "traces.reasoning_tokens",
        "tags": "(SELECT group_concat(text, ',') FROM marks WHERE trace = traces.num AND kind = 'tag')",
        "notes": "(SELECT group_concat(text, char(10)) FROM marks WHERE trace = traces.num AND kind = 'note')",
    },
)

SQL_LEVELS: dict[str, tuple[dict[str, str], str]] = {
    "traces": (_TRACES, f"{_FROM_TRACES} WHERE superseded < 2 ORDER BY traces.num"),
    "errors": (
        _same("errors", "errors", _CONTEXT),
        f"FROM errors JOIN traces ON traces.num = errors.trace {_TOTAL} WHERE superseded < 2 "
        "ORDER BY errors.trace, errors.seq",
    ),
    "episodes": (
        {
            "episode": "episodes.id",
            "group": "episodes.group_id",
            "env": "episodes.env",
            "started": "episodes.started",
            "ended": "episodes.ended",
            "time_s": "episodes.ended - episodes.started",
            "traces": "count(traces.num)",
            "failed": "count(iif(traces.state = 'error', 1, NULL))",
            "reward": "avg(totals.reward)",
        },
        f"FROM episodes LEFT JOIN traces ON {_OF_EPISODE} {_TOTAL} "
        "GROUP BY episodes.rowid ORDER BY episodes.rowid",
    ),
    "runs": (
        {
            "run": ":run",
            "dir": ":dir",
            "state": f"coalesce(nullif({_meta('state')}, 'running'), :unfinished)",
            "created": _meta("created"),
            "tasks": "(SELECT count(*) FROM tasks)",
            "episodes": "(SELECT count(*) FROM episodes)",
            "traces": _count("1"),
            "finished": _count(_ENDED),
            "running": _count("state = 'running' AND :unfinished = 'running'"),
            "failed": _count("state = 'error'"),
            "reward": _SCORED.format("avg(reward)"),
            "scored": _SCORED.format("count(reward)"),
            "tokens_in": _sum("prompt_tokens"),
            "tokens_out": _sum("completion_tokens"),
            "cost": _sum("cost"),
            "version": ":version",
        },
        "",
    ),
}
"""Level -> (expression by column, the rest of the SELECT)."""


_LABEL = (
    "(SELECT {value} FROM marks WHERE trace = traces.num AND kind = 'label' "
    "AND json_extract(text, '$.name') = '{name}' ORDER BY id DESC LIMIT 1)"
)
_VALUE = "json_extract(text, '$.value')"
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KINDS: dict[str, Kind] = {"true": "bool", "false": "bool", "integer": "int", "real": "float", "text": "text"}


def labels(reader: RunReader) -> dict[Column, str]:
    """A column for each label that traces of the run have, and its expression over `traces`.

    Truth values, whole numbers, numbers or text, whichever holds all of a label's values.
    """
    kinds: dict[str, set[Kind]] = {}
    for name, json_type in reader.query(
        "SELECT DISTINCT json_extract(text, '$.name'), json_type(text, '$.value') FROM marks "
        "WHERE kind = 'label' ORDER BY 1"
    ):
        if _IDENTIFIER.fullmatch(name):
            kinds.setdefault(name, set()).update({_KINDS[json_type]} if json_type in _KINDS else ())
    found = {}
    for name, seen in kinds.items():
        kind: Kind = "text" if "text" in seen else next(iter(seen)) if len(seen) == 1 else "float"
        value = f"CAST({_VALUE} AS TEXT)" if kind == "text" else _VALUE
        found[Column(f"label_{name}", kind, f"the label {name}")] = _LABEL.format(value=value, name=name)
    return found


def select(
    reader: RunReader,
    level: str,
    names: list[str],
    condition: str | None,
    version: int,
    more: Mapping[Column, str] = {},
) -> dict[str, list[Any]]:
    """Values by column. `condition` is checked SQL over the level's columns and `more`."""
    expressions, rest = SQL_LEVELS[level]
    expressions = expressions | {column.name: sql for column, sql in more.items()}
    inner = ", ".join(f'{expression} AS "{name}"' for name, expression in expressions.items())
    wanted = ", ".join(f'"{name}"' for name in names)
    sql = f"SELECT {wanted} FROM (SELECT {inner} {rest})"
    if condition is not None:
        sql += f" WHERE {condition}"
    folder = reader.dir.resolve()
    given = {
        "version": version,
        "unfinished": reader.unfinished_state,
        "run": folder.name,
        "dir": str(folder),
    }
    rows = reader.query(sql, given)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return {name: list(values) for name, values in zip(names, columns, strict=True)}


def trace_columns(
    reader: RunReader, condition: str | None, version: int
) -> list[tuple[int, tuple[Any, ...]]]:
    """Number and context columns of the traces that a condition over the context columns selects."""
    inner = ", ".join(f'{expression} AS "{name}"' for name, expression in _CONTEXT.items())
    sql = (
        f"SELECT * FROM (SELECT traces.num, {inner} {_FROM_TRACES} WHERE superseded < 2 ORDER BY traces.num)"
    )
    if condition is not None:
        sql += f" WHERE {condition}"
    given = {"version": version, "unfinished": reader.unfinished_state}
    return [(row[0], tuple(row[1:])) for row in reader.query(sql, given)]


def matching(reader: RunReader, where: str, version: int) -> list[str]:
    """Ids of the traces for which a condition over the columns of `traces` is true.

    Raises:
        ConfigError: it is no condition.
    """
    more = labels(reader)
    names = [*(column.name for column in columns_of("traces")), *(column.name for column in more)]
    condition = parse(where, names).sql
    try:
        return select(reader, "traces", ["trace"], condition, version, more)["trace"]
    except StoreError as error:
        if "damaged" in str(error):
            raise
        raise ConfigError(f"where={where!r} is not a condition: {error}") from error
