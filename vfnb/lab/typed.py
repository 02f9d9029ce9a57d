"""Columns of plain values as typed pandas columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from vfnb.lab.schema import Column
from vfnb.utils.plain import encodable

__all__ = ["table", "typed"]


def typed(kind: str, values: Any) -> Any:
    """Values as a pandas array of a kind.

    Args:
        kind: `Column.kind`.
        values: a sequence with None for missing, or a numpy array; times in unix seconds.
    """
    if kind == "text":
        return _texts(values)
    if kind == "float":
        return np.asarray(values, dtype=np.float64)  # None becomes NaN
    if kind == "time":
        seconds = np.asarray(values, dtype=np.float64)
        missing = np.isnan(seconds)
        whole = np.floor(np.where(missing, 0.0, seconds))
        # Whole seconds and the rest apart: a float64 of nanoseconds would lose microseconds.
        rest = np.where(missing, 0.0, seconds) - whole
        nanos = whole.astype(np.int64) * 1_000_000_000 + np.round(rest * 1e6).astype(np.int64) * 1_000
        stamps = nanos.astype("datetime64[ns]")
        stamps[missing] = np.datetime64("NaT", "ns")
        return pd.DatetimeIndex(stamps, tz="UTC").array
    dtype: Any = np.int64 if kind == "int" else np.bool_
    wrap: Any = pd.arrays.IntegerArray if kind == "int" else pd.arrays.BooleanArray
    if isinstance(values, np.ndarray) and values.dtype == dtype:
        return wrap(values, np.zeros(len(values), dtype=np.bool_))
    mask = np.fromiter((value is None for value in values), dtype=np.bool_, count=len(values))
    filled = np.fromiter((value or 0 for value in values), dtype=dtype, count=len(values))
    return wrap(filled, mask)


def _texts(values: Any) -> Any:
    try:
        return pd.array(values, dtype="string")
    except UnicodeEncodeError:  # pyarrow, where it is installed, holds UTF-8 only
        return pd.array(
            [encodable(text) if isinstance(text, str) else text for text in values], dtype="string"
        )


def table(columns: Sequence[Column], values: Mapping[str, Any]) -> pd.DataFrame:
    """A frame with these columns, in this order."""
    return pd.DataFrame({column.name: typed(column.kind, values[column.name]) for column in columns})
