"""A trace from the header that a store kept of it: our own record, which was checked when it was written."""

from __future__ import annotations

from typing import Any

from vfnb.trace.graph import MessageGraph
from vfnb.trace.trace import Reward, Span, TaskInfo, Trace
from vfnb.utils.models import bare

__all__ = ["stored_trace"]

_FIELDS = Trace.model_fields.keys()
_PARTS = (("rewards", Reward), ("timing", Span))
_CHECKED = ("judge_calls", "errors", "attempts")  # seldom there


def stored_trace(header: dict[str, Any], graph: MessageGraph) -> Trace:
    """The trace; a header of another version, or with more in it than most, goes through the model's checks."""
    task = header.get("task")
    if (
        header.keys() != _FIELDS
        or type(task) is not dict
        or task.keys() != TaskInfo.model_fields.keys()
        or any(header[name] for name in _CHECKED)
    ):
        return Trace.from_header(header, graph)
    for name, kind in _PARTS:
        fields = kind.model_fields.keys()
        for key, part in header[name].items():
            if type(part) is not dict or part.keys() != fields:
                return Trace.from_header(header, graph)
            header[name][key] = bare(kind, part)
    header["task"] = bare(TaskInfo, task)
    return bare(Trace, header, private={"_on_mark": None, "_dag": graph, "_state": None})
