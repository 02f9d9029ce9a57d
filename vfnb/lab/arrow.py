"""Frames as Arrow tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vfnb.errors import MissingExtra

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["arrow_table"]


def arrow_table(frame: pd.DataFrame) -> pa.Table:
    """A frame without its index, missing values as nulls.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtra("Arrow tables need pyarrow: pip install 'vfnb[export]'") from None
    return pa.Table.from_pandas(frame, preserve_index=False)
