"""Many runs at once: one frame over all of them, and what folders of runs hold."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfnb.errors import ConfigError, VfnbError
from vfnb.runs.config import names
from vfnb.runs.group import RunGroup
from vfnb.runs.run import Run, load
from vfnb.store import is_run

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["frame", "runs"]


def frame(
    runs: Iterable[Run | RunGroup | str | Path] | Run | RunGroup | str | Path,
    level: str = "traces",
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
) -> pd.DataFrame:
    """One level of several runs as one table, with the column `run` (the folder's name) in front.

    Args:
        runs: runs, studies, comparisons or folders; two runs of one name are told apart by their folders.
        level: as for `Run.frame`.
        columns: only these.
        where: SQL over the level's columns, applied within each run.

    Raises:
        ConfigError: no run is given, or `Run.frame` cannot do it.
        StoreError: a run cannot be read.
    """
    import pandas as pd

    given = [runs] if isinstance(runs, Run | RunGroup | str | Path) else list(runs)
    loaded = [load(one) if isinstance(one, str | Path) else one for one in given]
    opened = [run for one in loaded for run in (one.values() if isinstance(one, RunGroup) else [one])]
    if not opened:
        raise ConfigError("frame: give at least one run")
    called = [run.name for run in opened]
    parts = []
    for run in opened:
        name = run.name if called.count(run.name) == 1 else str(run.dir)
        part = run.frame(level, columns=None if columns is None else _known(run, level, columns), where=where)
        if "run" not in part:
            part.insert(0, "run", pd.Series([name] * len(part), dtype="string"))
        parts.append(part)
    found = pd.concat(parts, ignore_index=True)
    found.attrs = {
        "level": level,
        "complete": all(part.attrs["complete"] for part in parts),
        "runs": [str(run.dir) for run in opened],
        "schema": parts[0].attrs["schema"],
    }
    return found


def _known(run: Run, level: str, columns: Sequence[str]) -> list[str]:
    """The columns to ask a run for: a label that only another run has is missing here."""
    from vfnb.lab.sql_levels import labels

    wanted = [columns] if isinstance(columns, str) else list(columns)
    if level != "traces":
        return wanted
    there = {column.name for column in labels(run._reader)}
    return [name for name in wanted if not name.startswith("label_") or name in there]


_HEADLINES = ("traces", "finished", "failed", "scored", "reward", "cost", "version")


def runs(dir: str | Path = "runs") -> pd.DataFrame:
    """The runs below a folder, oldest first: a row for each, damaged ones with the reason.

    Returns:
        Columns `run` (its name), `dir` (what `vf.load` opens), `taskset`, `harness`, `model`, `state` (`running`,
        `finished`, `stopped`, `interrupted`, `damaged`), `created`, `traces`, `finished`, `failed`, `scored`,
        `reward` (mean of the scored), `cost`, `version` and `problem`.

    Raises:
        ConfigError: there is no such folder.
    """
    from vfnb.lab.schema import Column
    from vfnb.lab.typed import table

    folder = Path(dir)
    if not folder.is_dir():
        raise ConfigError(f"runs: {str(folder)!r} is no folder")
    texts = ("run", "dir", "taskset", "harness", "model", "state")
    shape = [Column(name, "text", "") for name in texts] + [Column("created", "time", "")]
    shape += [Column(name, "float" if name in ("reward", "cost") else "int", "") for name in _HEADLINES]
    shape.append(Column("problem", "text", ""))
    rows = [_row(one) for one in _folders(folder)]
    found = table(shape, {column.name: [row.get(column.name) for row in rows] for column in shape})
    return found.sort_values("created", kind="stable", na_position="last", ignore_index=True)


def _folders(folder: Path) -> Iterator[Path]:
    for place, below, _ in os.walk(folder):
        if is_run(Path(place)):
            below.clear()  # nothing of a run is a run
            yield Path(place)
        below.sort()


def _row(folder: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"run": folder.resolve().name, "dir": str(folder)}
    try:
        run = Run(folder)
    except VfnbError as error:
        return row | {"state": "damaged", "problem": str(error)}
    try:
        found = run.frame("runs").iloc[0]
        row |= {name: _value(found[name]) for name in ("state", *_HEADLINES)}
        row["created"] = run._reader.meta().get("created")
        return row | names(run.config)
    except VfnbError as error:
        return row | {"state": "damaged", "problem": str(error)}
    finally:
        run.close()


def _value(value: Any) -> Any:
    """A cell of a frame, None where it is missing."""
    import pandas as pd

    return None if pd.isna(value) else value
