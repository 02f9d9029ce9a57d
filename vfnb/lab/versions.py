"""The score versions of a run as a table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vfnb.errors import ConfigError
from vfnb.lab.schema import Column
from vfnb.store.reader import RunReader

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_version", "version_table"]

_COLUMNS = (
    Column("version", "int", "number of the version"),
    Column("kind", "text", "live: what the run itself scored, or rescore"),
    Column("label", "text", "what it was called"),
    Column("created", "time", "when it was made"),
    Column("traces", "int", "traces that it has scores of"),
    Column("errors", "int", "traces whose scoring failed in it"),
    Column("reward", "float", "mean reward"),
    Column("weights", "text", "weights that it changed, as JSON"),
)


def version_table(reader: RunReader) -> pd.DataFrame:
    """A row per version, oldest first: version, kind, label, created, traces, errors, reward, weights."""
    from vfnb.lab.typed import table

    rows = reader.query(
        "SELECT v.version, v.kind, v.label, v.created, count(t.trace), count(t.error), avg(t.reward), v.weights "
        "FROM versions v LEFT JOIN (SELECT totals.* FROM totals JOIN traces ON num = trace WHERE superseded = 0) t "
        "ON t.version = v.version GROUP BY v.version ORDER BY v.version"
    )
    values = list(zip(*rows, strict=True)) if rows else [()] * len(_COLUMNS)
    found = {column.name: list(part) for column, part in zip(_COLUMNS, values, strict=True)}
    found["weights"] = [text if json.loads(text) else None for text in found["weights"]]
    return table(_COLUMNS, found)


def check_version(reader: RunReader, version: int) -> None:
    """Refuse a number that no version has.

    Raises:
        ConfigError: it names the versions there are.
    """
    known = [one.version for one in reader.versions()]
    if isinstance(version, bool) or version not in known:
        there = ", ".join(map(str, known[-20:])) or "none yet"
        raise ConfigError(f"no score version {version!r}; there are {there}; run.scores lists them")
