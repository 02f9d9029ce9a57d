"""The labels of a run's traces as a table."""

from __future__ import annotations

from typing import Any

import pandas as pd

from vfnb.lab.typed import typed
from vfnb.store.reader import RunReader
from vfnb.trace.labels import read_label

__all__ = ["label_table"]


def label_table(reader: RunReader) -> pd.DataFrame:
    """A row per trace and label name: the last value that was given; those that were taken away are left out.

    Returns:
        Columns `trace`, `task`, `rollout`, `label`, `value` (True, False, a number or a text) and `at` (when).
    """
    found: dict[tuple[int, str], tuple[Any, ...]] = {}
    for num, *where, text, at in reader.query(
        "SELECT num, traces.id, task_key, rollout, text, at FROM marks JOIN traces ON num = trace "
        "WHERE kind = 'label' AND superseded < 2 ORDER BY marks.id"
    ):
        name, value = read_label(text)
        if value is None:
            found.pop((num, name), None)
        else:
            found[num, name] = (*where, name, value, at)
    rows = [row for _, row in sorted(found.items(), key=lambda item: item[0])]
    columns = list(zip(*rows, strict=True)) if rows else [()] * 6
    kinds = {"trace": "text", "task": "text", "rollout": "int", "label": "text", "value": "", "at": "time"}
    return pd.DataFrame(
        {
            name: typed(kind, values) if kind else pd.Series(list(values), dtype=object)
            for (name, kind), values in zip(kinds.items(), columns, strict=True)
        }
    )
