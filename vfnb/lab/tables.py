"""Small tables made of row records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from vfnb.lab.rows import Row
from vfnb.lab.stats import per_task

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["task_table"]

_COLUMNS = {
    "task": "string",
    "name": "string",
    "n": "Int64",
    "scored": "Int64",
    "errors": "Int64",
    "mean": "Float64",
    "se": "Float64",
    "variance": "Float64",
    "passed": "Int64",
    "pass_rate": "Float64",
}


def task_table(rows: Iterable[Row]) -> pd.DataFrame:
    """One row per task: what `TaskStat` holds, missing values as NA."""
    import pandas as pd

    stats = [asdict(stat) for stat in per_task(rows)]
    return pd.DataFrame(stats, columns=list(_COLUMNS)).astype(_COLUMNS)
