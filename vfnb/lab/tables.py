"""Small tables made of row records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from vfnb.lab.rows import Row
from vfnb.lab.stats import per_task
from vfnb.utils.plain import encodable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["task_table"]

_COLUMNS = {
    "task": "string",
    "idx": "Int64",
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
    """One row per task in the order of the taskset: what `TaskStat` holds, missing values as NA."""
    import pandas as pd

    found = sorted(per_task(rows), key=lambda stat: (stat.idx is None, stat.idx or 0))
    stats = [asdict(stat) for stat in found]
    for stat in stats:
        stat |= {name: encodable(stat[name]) for name in ("task", "name") if stat[name] is not None}
    return pd.DataFrame(stats, columns=list(_COLUMNS)).astype(_COLUMNS)
