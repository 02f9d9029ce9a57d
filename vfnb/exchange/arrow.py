"""Arrow tables with fixed types, so that no column's type depends on its rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfnb.errors import MissingExtra

if TYPE_CHECKING:
    from vfnb.trace import Sample

__all__ = ["pyarrow", "sample_table", "write_parquet"]


def pyarrow() -> Any:
    """
    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("exports need pyarrow: pip install 'vfnb[export]'") from error
    return pyarrow


def write_parquet(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Rows of `sft_rows` as Parquet."""
    pa = pyarrow()
    function = pa.struct([("name", pa.string()), ("arguments", pa.string())])
    call = pa.struct([("id", pa.string()), ("type", pa.string()), ("function", function)])
    message = pa.struct(
        [
            ("role", pa.string()),
            ("content", pa.string()),
            ("reasoning_content", pa.string()),
            ("tool_calls", pa.list_(call)),
            ("tool_call_id", pa.string()),
        ]
    )
    schema = pa.schema(
        [
            ("messages", pa.list_(message)),
            ("tools", pa.string()),
            ("reward", pa.float64()),
            ("trace_id", pa.string()),
            ("task_key", pa.string()),
            ("task_hash", pa.string()),
            ("branch", pa.int64()),
        ]
    )
    pa.parquet.write_table(pa.Table.from_pylist(list(rows), schema=schema), path)


def sample_table(samples: Sequence[Sample]) -> Any:
    """Samples as a `pyarrow.Table`: a row per sample, tokens as lists of int32, bool and float32."""
    pa = pyarrow()
    types: dict[str, tuple[Any, Any]] = {
        "trace_id": (pa.string(), lambda one: one.trace_id),
        "episode_id": (pa.string(), lambda one: one.episode_id),
        "group_id": (pa.string(), lambda one: one.group_id),
        "task_key": (pa.string(), lambda one: one.task_key),
        "branch": (pa.int64(), lambda one: one.branch),
        "cause": (pa.string(), lambda one: one.cause),
        "reward": (pa.float64(), lambda one: one.reward),
        "advantage": (pa.float64(), lambda one: one.advantage),
        "weight": (pa.float64(), lambda one: one.weight),
        "token_ids": (pa.list_(pa.int32()), lambda one: one.token_ids),
        "mask": (pa.list_(pa.bool_()), lambda one: one.mask),
        "logprobs": (pa.list_(pa.float32()), lambda one: one.logprobs),
    }
    columns = [pa.array([get(one) for one in samples], kind) for kind, get in types.values()]
    return pa.Table.from_arrays(columns, names=list(types))
